// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// A call of the client and what must come of it. They run in order and build on each other.
type call struct {
	name string
	run  func(context.Context, client.Client) error
}

func settings(name string, data ...string) *corev1.ConfigMap {
	m := &corev1.ConfigMap{Data: map[string]string{}}
	m.Name, m.Namespace, m.Labels = name, "default", map[string]string{"set": "probe"}
	for i := 0; i+1 < len(data); i += 2 {
		m.Data[data[i]] = data[i+1]
	}
	return m
}

// expect is the error of a call that must fail in one way.
func expect(err error, is func(error) bool) error {
	if is(err) {
		return nil
	}
	return fmt.Errorf("got: %v", err)
}

func equal[T comparable](got, want T) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("got %v, not %v", got, want)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func deployment() *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Name, d.Namespace = "probe", "default"
	app := map[string]string{"app": "probe"}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: app}
	d.Spec.Template.Labels = app
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "a:1"}, {Name: "b", Image: "b:1"}}
	return d
}

var writes = []call{
	{"create in protobuf", func(ctx context.Context, c client.Client) error {
		m := settings("probe", "a", "1")
		err := c.Create(ctx, m)
		return first(err, equal(m.UID != "" && m.ResourceVersion != "", true))
	}},
	{"a second create is AlreadyExists", func(ctx context.Context, c client.Client) error {
		return expect(c.Create(ctx, settings("probe")), apierrors.IsAlreadyExists)
	}},
	{"a stale update is Conflict", func(ctx context.Context, c client.Client) error {
		old, m := settings("probe"), settings("probe")
		if err := c.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		m.DeepCopyInto(old)
		m.Data["a"] = "2"
		old.Data["a"] = "3"
		return first(c.Update(ctx, m), expect(c.Update(ctx, old), apierrors.IsConflict))
	}},
	{"a patch with an optimistic lock is Conflict", func(ctx context.Context, c client.Client) error {
		m := settings("probe")
		if err := c.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		before := m.DeepCopy()
		m.Data["a"] = "4"
		if err := c.Update(ctx, m.DeepCopy()); err != nil {
			return err
		}
		p := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		return expect(c.Patch(ctx, m, p), apierrors.IsConflict)
	}},
	{"a JSON patch whose test fails is Invalid", func(ctx context.Context, c client.Client) error {
		p := client.RawPatch(types.JSONPatchType, []byte(`[{"op": "test", "path": "/data/a", "value": "9"}]`))
		return expect(c.Patch(ctx, settings("probe"), p), apierrors.IsInvalid)
	}},
	{"a dry run writes nothing", func(ctx context.Context, c client.Client) error {
		return first(c.Create(ctx, settings("dry"), client.DryRunAll),
			expect(c.Get(ctx, client.ObjectKeyFromObject(settings("dry")), settings("dry")), apierrors.IsNotFound))
	}},
	{"an invalid object names its field", func(ctx context.Context, c client.Client) error {
		d := deployment()
		d.Spec.Template.Labels = map[string]string{"app": "other"}
		err := c.Create(ctx, d)
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("got: %v", err)
		}
		causes := err.(apierrors.APIStatus).Status().Details.Causes
		for _, cause := range causes {
			if cause.Field == "spec.template.metadata.labels" {
				return nil
			}
		}
		return fmt.Errorf("causes: %v", causes)
	}},
	{"CreateOrUpdate and CreateOrPatch see defaults as no change", func(ctx context.Context, c client.Client) error {
		d := deployment()
		if _, err := controllerutil.CreateOrUpdate(ctx, c, d, func() error { return nil }); err != nil {
			return err
		}
		same, err := controllerutil.CreateOrPatch(ctx, c, d, func() error {
			d.Spec.Template.Spec.Containers[0].Image = "a:1"
			return nil
		})
		return first(err, equal(same, controllerutil.OperationResultNone))
	}},
	{"a strategic merge patch merges containers by name", func(ctx context.Context, c client.Client) error {
		d := deployment()
		if err := c.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		before := d.DeepCopy()
		d.Spec.Template.Spec.Containers[1].Image = "b:2"
		err := c.Patch(ctx, d, client.StrategicMergeFrom(before))
		return first(err, equal(d.Generation, 2),
			equal(len(d.Spec.Template.Spec.Containers), 2), equal(d.Spec.Template.Spec.Containers[1].Image, "b:2"))
	}},
}

var subresources = []call{
	{"status is written apart from spec", func(ctx context.Context, c client.Client) error {
		d := deployment()
		if err := c.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		d.Spec.Replicas, d.Status.Replicas = new(int32(7)), 1 // the first is not for this subresource
		err := c.Status().Update(ctx, d)
		return first(err, equal(*d.Spec.Replicas, 1), equal(d.Status.Replicas, 1), equal(d.Generation, 2))
	}},
	{"scale is read and written", func(ctx context.Context, c client.Client) error {
		d, s := deployment(), &autoscalingv1.Scale{}
		if err := c.SubResource("scale").Get(ctx, d, s); err != nil {
			return err
		}
		s.Spec.Replicas = 3
		err := first(c.SubResource("scale").Update(ctx, d, client.WithSubResourceBody(s)),
			c.Get(ctx, client.ObjectKeyFromObject(d), d))
		return first(err, equal(*d.Spec.Replicas, 3))
	}},
	{"a token of a ServiceAccount", func(ctx context.Context, c client.Client) error {
		a, t := &corev1.ServiceAccount{}, &authv1.TokenRequest{}
		a.Name, a.Namespace = "probe", "default"
		if err := c.Create(ctx, a); err != nil {
			return err
		}
		review := &authv1.TokenReview{}
		if err := c.SubResource("token").Create(ctx, a, t); err != nil {
			return err
		}
		review.Spec.Token = t.Status.Token
		err := c.Create(ctx, review)
		return first(err, equal(review.Status.User.Username, "system:serviceaccount:default:probe"))
	}},
}

var reads = []call{
	{"a list in pages is whole", func(ctx context.Context, c client.Client) error {
		for i := range 7 {
			if err := c.Create(ctx, settings(fmt.Sprintf("page-%d", i))); err != nil {
				return err
			}
		}
		seen, next := 0, ""
		for {
			l := &corev1.ConfigMapList{}
			if err := c.List(ctx, l, client.InNamespace("default"), client.Limit(3), client.Continue(next),
				client.MatchingLabels{"set": "probe"}); err != nil {
				return err
			}
			seen += len(l.Items)
			if next = l.Continue; next == "" {
				return equal(seen, 8)
			}
		}
	}},
	{"a bad continue token is refused", func(ctx context.Context, c client.Client) error {
		return expect(c.List(ctx, &corev1.ConfigMapList{}, client.Continue("garbage")), apierrors.IsBadRequest)
	}},
	{"a field selector finds one", func(ctx context.Context, c client.Client) error {
		l := &corev1.ConfigMapList{}
		err := c.List(ctx, l, client.MatchingFields{"metadata.name": "page-4"})
		return first(err, equal(len(l.Items), 1))
	}},
	{"metadata alone", func(ctx context.Context, c client.Client) error {
		l := &metav1.PartialObjectMetadataList{}
		l.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
		err := c.List(ctx, l, client.MatchingLabels{"set": "probe"})
		return first(err, equal(len(l.Items), 8))
	}},
	{"a kind that is not served is NoMatch", func(ctx context.Context, c client.Client) error {
		g := garden()
		g.SetKind("Forest")
		return expect(c.Get(ctx, client.ObjectKey{Name: "a", Namespace: "default"}, g), meta.IsNoMatchError)
	}},
}

var deletes = []call{
	{"a precondition of another UID is Conflict", func(ctx context.Context, c client.Client) error {
		other := types.UID("not-this-one")
		return expect(c.Delete(ctx, settings("probe"), client.Preconditions{UID: &other}), apierrors.IsConflict)
	}},
	{"DeleteAllOf takes a selector", func(ctx context.Context, c client.Client) error {
		all := []client.DeleteAllOfOption{client.InNamespace("default"), client.MatchingLabels{"set": "probe"}}
		l := &corev1.ConfigMapList{}
		err := first(c.DeleteAllOf(ctx, &corev1.ConfigMap{}, all...), c.List(ctx, l, client.MatchingLabels{"set": "probe"}))
		return first(err, equal(len(l.Items), 0))
	}},
	{"foreground deletion waits for dependents", func(ctx context.Context, c client.Client) error {
		d, m := deployment(), settings("owned")
		if err := c.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		m.Finalizers = []string{finalizer}
		if err := first(controllerutil.SetControllerReference(d, m, scheme.Scheme), c.Create(ctx, m),
			c.Delete(ctx, d, client.PropagationPolicy(metav1.DeletePropagationForeground)),
			c.Get(ctx, client.ObjectKeyFromObject(d), d)); err != nil {
			return err
		}
		return equal(strings.Join(d.Finalizers, " "), "foregroundDeletion")
	}},
}

// probe makes one call after the other with a client that has no cache, and prints a line about each.
func probe(config *rest.Config) error {
	c, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		return err
	}
	failed := 0
	selected := []call{{"a watch by label sees objects enter and leave", func(ctx context.Context, _ client.Client) error {
		return watched(ctx, c)
	}}}
	for _, calls := range [][]call{writes, subresources, reads, deletes, customs, refusals, selected} {
		for _, call := range calls {
			if err := call.run(context.Background(), c); err != nil {
				fmt.Printf("failed %s: %v\n", call.name, err)
				failed++
				continue
			}
			fmt.Printf("passed %s\n", call.name)
		}
	}
	return equal(failed, 0)
}
