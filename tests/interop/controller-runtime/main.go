// SPDX-License-Identifier: Apache-2.0

// Command manager is an ordinary operator made with controller-runtime: a leader election, caches, a kind of its own
// whose objects own ConfigMaps, finalizers, status, server-side apply, Events, and validating and mutating webhooks.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const finalizer = "interop.spanwire.dev/cleanup"

var kind = schema.GroupVersionKind{Group: "interop.spanwire.dev", Version: "v1", Kind: "Garden"}

type reconciler struct {
	client.Client
	events events.EventRecorder
	name   string
}

func garden() *unstructured.Unstructured {
	g := &unstructured.Unstructured{}
	g.SetGroupVersionKind(kind)
	return g
}

// Reconcile keeps a ConfigMap per plant of the Garden, by server-side apply, and counts those there are.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	g := garden()
	if err := r.Get(ctx, req.NamespacedName, g); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if g.GetDeletionTimestamp() != nil {
		r.events.Eventf(g, nil, corev1.EventTypeNormal, "Cleared", "Clear", "cleared by %s", r.name)
		if controllerutil.RemoveFinalizer(g, finalizer) {
			return ctrl.Result{}, r.Update(ctx, g)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(g, finalizer) {
		if err := r.Update(ctx, g); err != nil {
			return ctrl.Result{}, err
		}
	}
	plants, _, _ := unstructured.NestedStringSlice(g.Object, "spec", "plants")
	for _, plant := range plants {
		m := corev1apply.ConfigMap(g.GetName()+"-"+plant, g.GetNamespace()).WithData(map[string]string{"plant": plant}).
			WithOwnerReferences(metav1apply.OwnerReference().WithAPIVersion(kind.GroupVersion().String()).
				WithKind(kind.Kind).WithName(g.GetName()).WithUID(g.GetUID()).WithController(true))
		if err := r.Apply(ctx, m, client.FieldOwner("garden"), client.ForceOwnership); err != nil {
			return ctrl.Result{}, err
		}
	}
	var maps corev1.ConfigMapList
	mine := client.MatchingFields{"owner": g.GetName()}
	if err := r.List(ctx, &maps, client.InNamespace(g.GetNamespace()), mine); err != nil {
		return ctrl.Result{}, err
	}
	before := g.DeepCopy()
	_ = unstructured.SetNestedField(g.Object, int64(len(maps.Items)), "status", "planted")
	_ = unstructured.SetNestedField(g.Object, r.name, "status", "gardener")
	if err := r.Status().Patch(ctx, g, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.events.Eventf(g, nil, corev1.EventTypeNormal, "Planted", "Plant", "%d plants", len(plants))
	return ctrl.Result{}, nil
}

func owner(o client.Object) []string {
	if ref := metav1.GetControllerOf(o); ref != nil && ref.Kind == kind.Kind {
		return []string{ref.Name}
	}
	return nil
}

// decide refuses weeds and gives every Garden a fence.
func decide(scheme admission.Decoder) (validate, mutate admission.HandlerFunc) {
	read := func(req admission.Request) (*unstructured.Unstructured, error) {
		g := garden()
		return g, scheme.Decode(req, g)
	}
	validate = func(_ context.Context, req admission.Request) admission.Response {
		g, err := read(req)
		if err != nil {
			return admission.Errored(400, err)
		}
		plants, _, _ := unstructured.NestedStringSlice(g.Object, "spec", "plants")
		for _, plant := range plants {
			if plant == "weed" {
				return admission.Denied("no weeds for " + req.UserInfo.Username)
			}
		}
		return admission.Allowed("").WithWarnings("water it")
	}
	mutate = func(_ context.Context, req admission.Request) admission.Response {
		g, err := read(req)
		if err != nil {
			return admission.Errored(400, err)
		}
		_ = unstructured.SetNestedField(g.Object, "wood", "spec", "fence")
		raw, err := g.MarshalJSON()
		if err != nil {
			return admission.Errored(500, err)
		}
		return admission.PatchResponseFromRaw(req.Object.Raw, raw)
	}
	return validate, mutate
}

func start() error {
	kubeconfig := flag.String("kubeconfig-file", "", "the API")
	name := flag.String("name", "manager", "of this process, in status and Events")
	hooks := flag.String("webhooks", "", "ADDRESS:PORT to serve webhooks at; empty: none")
	certs := flag.String("cert-dir", "", "with tls.crt and tls.key")
	once := flag.Bool("probe", false, "make the calls of probe.go and end")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	if *once {
		return probe(config)
	}
	options := ctrl.Options{
		LeaderElection: true, LeaderElectionID: "gardener", LeaderElectionNamespace: "default",
		LeaderElectionReleaseOnCancel: true, Metrics: metricsserver.Options{BindAddress: "0"},
	}
	if *hooks != "" {
		host, port, err := net.SplitHostPort(*hooks)
		if err != nil {
			return err
		}
		number, err := strconv.Atoi(port)
		if err != nil {
			return err
		}
		options.WebhookServer = webhook.NewServer(webhook.Options{Host: host, Port: number, CertDir: *certs})
	}
	m, err := ctrl.NewManager(config, options)
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	if err := m.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, "owner", owner); err != nil {
		return err
	}
	r := &reconciler{Client: m.GetClient(), events: m.GetEventRecorder("gardener"), name: *name}
	if err := ctrl.NewControllerManagedBy(m).For(garden()).Owns(&corev1.ConfigMap{}).Complete(r); err != nil {
		return err
	}
	if *hooks != "" {
		validate, mutate := decide(admission.NewDecoder(m.GetScheme()))
		m.GetWebhookServer().Register("/validate", &webhook.Admission{Handler: validate})
		m.GetWebhookServer().Register("/mutate", &webhook.Admission{Handler: mutate})
	}
	return m.Start(ctx)
}

func main() {
	klog.InitFlags(nil)
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
