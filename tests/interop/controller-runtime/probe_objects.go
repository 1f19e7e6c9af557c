// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func planted(name string, plants ...any) *unstructured.Unstructured {
	g := garden()
	g.SetName(name)
	g.SetNamespace("default")
	_ = unstructured.SetNestedSlice(g.Object, append([]any{}, plants...), "spec", "plants")
	return g
}

// caused says that an error of this kind has a cause of this type.
func caused(is func(error) bool, cause metav1.CauseType) func(error) bool {
	return func(err error) bool {
		_, found := apierrors.StatusCause(err, cause)
		return is(err) && found
	}
}

func says(is func(error) bool, text string) func(error) bool {
	return func(err error) bool { return is(err) && strings.Contains(err.Error(), text) }
}

var customs = []call{
	{"a custom object's update needs a resourceVersion", func(ctx context.Context, c client.Client) error {
		return first(c.Create(ctx, planted("probe", "a")), expect(c.Update(ctx, planted("probe", "b")),
			says(apierrors.IsInvalid, "must be specified for an update")))
	}},
	{"a built-in object's update needs none", func(ctx context.Context, c client.Client) error {
		return first(c.Create(ctx, settings("bare")), c.Update(ctx, settings("bare", "a", "1")))
	}},
	{"an update without change keeps the resourceVersion", func(ctx context.Context, c client.Client) error {
		m := settings("bare", "a", "1")
		if err := c.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		before := m.ResourceVersion
		err := c.Update(ctx, m)
		return first(err, equal(m.ResourceVersion, before))
	}},
	{"an update of spec leaves status, an update of status leaves spec", func(ctx context.Context, c client.Client) error {
		g := planted("probe")
		if err := c.Get(ctx, client.ObjectKeyFromObject(g), g); err != nil {
			return err
		}
		_ = unstructured.SetNestedField(g.Object, int64(9), "status", "planted")
		if err := c.Update(ctx, g); err != nil {
			return err
		}
		_, found, _ := unstructured.NestedInt64(g.Object, "status", "planted")
		_ = unstructured.SetNestedField(g.Object, int64(9), "status", "planted")
		_ = unstructured.SetNestedSlice(g.Object, []any{"z"}, "spec", "plants")
		if err := first(equal(found, false), c.Status().Update(ctx, g)); err != nil {
			return err
		}
		plants, _, _ := unstructured.NestedStringSlice(g.Object, "spec", "plants")
		return first(equal(strings.Join(plants, " "), "a"), equal(g.GetGeneration(), 1))
	}},
	{"status is applied on the server", func(ctx context.Context, c client.Client) error {
		g := garden()
		g.SetName("probe")
		g.SetNamespace("default")
		_ = unstructured.SetNestedField(g.Object, "probe", "status", "gardener")
		apply := client.ApplyConfigurationFromUnstructured(g)
		if err := c.Status().Apply(ctx, apply, client.FieldOwner("status"), client.ForceOwnership); err != nil {
			return err
		}
		got := planted("probe")
		err := c.Get(ctx, client.ObjectKeyFromObject(got), got)
		by, _, _ := unstructured.NestedString(got.Object, "status", "gardener")
		fields := got.GetManagedFields()
		return first(err, equal(by, "probe"), equal(fields[len(fields)-1].Subresource, "status"))
	}},
	{"an unknown field is refused when validation is strict", func(ctx context.Context, c client.Client) error {
		g := planted("strict", "a")
		_ = unstructured.SetNestedField(g.Object, "x", "spec", "colour")
		return expect(client.WithFieldValidation(c, metav1.FieldValidationStrict).Create(ctx, g),
			says(apierrors.IsBadRequest, `unknown field "spec.colour"`))
	}},
	{"an unknown field is dropped otherwise", func(ctx context.Context, c client.Client) error {
		g := planted("loose", "a")
		_ = unstructured.SetNestedField(g.Object, "x", "spec", "colour")
		if err := c.Create(ctx, g); err != nil {
			return err
		}
		_, found, _ := unstructured.NestedString(g.Object, "spec", "colour")
		return equal(found, false)
	}},
}

var refusals = []call{
	{"a name from generateName", func(ctx context.Context, c client.Client) error {
		m := settings("")
		m.GenerateName = "made-"
		err := c.Create(ctx, m)
		return first(err, equal(strings.HasPrefix(m.Name, "made-") && len(m.Name) == 10, true))
	}},
	{"a bad name is Invalid", func(ctx context.Context, c client.Client) error {
		return expect(c.Create(ctx, settings("Bad_Name")), caused(apierrors.IsInvalid, metav1.CauseTypeFieldValueInvalid))
	}},
	{"a namespace that does not exist is NotFound", func(ctx context.Context, c client.Client) error {
		m := settings("lost")
		m.Namespace = "nowhere"
		return expect(c.Create(ctx, m), says(apierrors.IsNotFound, `namespaces "nowhere" not found`))
	}},
	{"a namespace that ends takes nothing new", func(ctx context.Context, c client.Client) error {
		n, m := &corev1.Namespace{}, settings("late")
		n.Name, m.Namespace = "ending", "ending"
		held := settings("held")
		held.Namespace, held.Finalizers = "ending", []string{finalizer}
		if err := first(c.Create(ctx, n), c.Create(ctx, held), c.Delete(ctx, n)); err != nil {
			return err
		}
		err := expect(c.Create(ctx, m), caused(apierrors.IsForbidden, corev1.NamespaceTerminatingCause))
		held.Finalizers = nil
		release := client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"finalizers": null}}`))
		return first(err, c.Patch(ctx, held, release))
	}},
	{"an applied field of another manager is a conflict that names it", func(ctx context.Context, c client.Client) error {
		m := corev1apply.ConfigMap("shared", "default").WithData(map[string]string{"a": "1"})
		other := corev1apply.ConfigMap("shared", "default").WithData(map[string]string{"a": "2"})
		return first(c.Apply(ctx, m, client.FieldOwner("one")), expect(c.Apply(ctx, other, client.FieldOwner("two")),
			caused(apierrors.IsConflict, metav1.CauseTypeFieldManagerConflict)))
	}},
	{"an immutable Secret stays as it is", func(ctx context.Context, c client.Client) error {
		s := &corev1.Secret{Immutable: new(true), Data: map[string][]byte{"a": {0, 255}}}
		s.Name, s.Namespace = "fixed", "default"
		if err := c.Create(ctx, s); err != nil {
			return err
		}
		s.Data["a"] = []byte("b")
		return expect(c.Update(ctx, s), apierrors.IsInvalid)
	}},
	{"an object being deleted takes no new finalizer", func(ctx context.Context, c client.Client) error {
		m := settings("going")
		m.Finalizers = []string{finalizer}
		if err := first(c.Create(ctx, m), c.Delete(ctx, m), c.Get(ctx, client.ObjectKeyFromObject(m), m)); err != nil {
			return err
		}
		m.Finalizers = append(m.Finalizers, "interop.spanwire.dev/more")
		err := expect(c.Update(ctx, m), says(apierrors.IsInvalid, "no new finalizers can be added"))
		m.Finalizers = nil
		return first(err, c.Update(ctx, m), expect(c.Get(ctx, client.ObjectKeyFromObject(m), m), apierrors.IsNotFound))
	}},
	{"a Lease keeps its microseconds", func(ctx context.Context, c client.Client) error {
		l := &coordinationv1.Lease{}
		l.Name, l.Namespace = "probe", "default"
		at := metav1.NewMicroTime(time.Unix(1700000000, 123456000))
		l.Spec.RenewTime = &at
		err := first(c.Create(ctx, l), c.Get(ctx, client.ObjectKeyFromObject(l), l))
		return first(err, equal(l.Spec.RenewTime.UnixNano(), at.UnixNano()))
	}},
}

// next is the next event of a watch that is not a bookmark.
func next(w watch.Interface) (watch.EventType, runtime.Object, error) {
	for {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				return "", nil, fmt.Errorf("the watch ended")
			}
			if e.Type != watch.Bookmark {
				return e.Type, e.Object, nil
			}
		case <-time.After(time.Minute):
			return "", nil, fmt.Errorf("no event")
		}
	}
}

func watched(ctx context.Context, c client.WithWatch) error {
	w, err := c.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace("default"), client.MatchingLabels{"watch": "yes"})
	if err != nil {
		return err
	}
	defer w.Stop()
	m := settings("seen")
	if err := c.Create(ctx, m); err != nil { // not selected yet
		return err
	}
	for _, step := range []struct {
		label string
		want  watch.EventType
	}{{"yes", watch.Added}, {"yes", watch.Modified}, {"no", watch.Deleted}} {
		m.Labels["watch"] = step.label
		m.Data = map[string]string{"step": string(step.want)}
		if err := c.Update(ctx, m); err != nil {
			return err
		}
		kind, object, err := next(w)
		if err := first(err, equal(kind, step.want)); err != nil {
			return err
		}
		if err := equal(object.(*corev1.ConfigMap).ResourceVersion, m.ResourceVersion); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}
