// SPDX-License-Identifier: Apache-2.0

// Command cert-manager runs cert-manager's controllers, its admission webhook and its CA injector in one process, as
// its three programs do. Those are modules without versions of their own; their packages are all in the main module.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cert-manager/cert-manager/internal/apis/config/shared"
	webhookconfig "github.com/cert-manager/cert-manager/internal/apis/config/webhook"
	"github.com/cert-manager/cert-manager/internal/webhook"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/gateways"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/ingresses"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/util"
)

const namespace = "cert-manager"

func controllers(ctx context.Context, kubeconfig string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:         kubeconfig,
		KubernetesAPIQPS:   100,
		KubernetesAPIBurst: 100,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: namespace},
		IngressShimOptions: controller.IngressShimOptions{
			DefaultIssuerKind:  "Issuer",
			DefaultIssuerGroup: "cert-manager.io",
		},
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes:                 []string{"*"},
			CertificateRequestMinimumBackoffDuration: time.Second,
			CertificateRequestMaximumBackoffDuration: time.Minute,
		},
		ConfigOptions: controller.ConfigOptions{EnableGatewayAPI: true},
	})
	if err != nil {
		return err
	}
	base, err := factory.Build()
	if err != nil {
		return err
	}
	var running []controller.Interface
	for name, construct := range controller.Known() {
		c, err := construct(factory)
		if err != nil {
			klog.ErrorS(err, "cannot construct", "controller", name)
			return err
		}
		running = append(running, c)
	}
	base.SharedInformerFactory.Start(ctx.Done())
	base.KubeSharedInformerFactory.Start(ctx.Done())
	base.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	base.GWShared.Start(ctx.Done())
	for _, c := range running {
		go func() {
			if err := c.Run(2, ctx); err != nil {
				klog.ErrorS(err, "controller ended")
			}
		}()
	}
	klog.InfoS("controllers started", "count", len(running))
	return nil
}

func admission(ctx context.Context, kubeconfig string, port, health int) error {
	s, err := webhook.NewCertManagerWebhookServer(klog.Background(), webhookconfig.WebhookConfiguration{
		KubeConfig:           kubeconfig,
		SecurePort:           int32(port),
		HealthzPort:          int32(health),
		MetricsListenAddress: "0",
		TLSConfig: shared.TLSConfig{Dynamic: shared.DynamicServingConfig{
			SecretNamespace: namespace,
			SecretName:      "cert-manager-webhook-ca",
			DNSNames:        []string{"localhost", "cert-manager-webhook.cert-manager.svc"},
			LeafDuration:    time.Hour,
		}},
	})
	if err != nil {
		return err
	}
	go func() {
		if err := s.Run(ctx); err != nil {
			klog.ErrorS(err, "webhook ended")
		}
	}()
	return nil
}

func injector(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config = util.RestConfigWithUserAgent(config, "cainjector") // its field manager is made of it
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, admissionv1.AddToScheme, apiextv1.AddToScheme,
		cmv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, LeaderElection: true,
		LeaderElectionID: "cert-manager-cainjector-leader-election", LeaderElectionNamespace: namespace,
		Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{"mutatingwebhookconfiguration": true,
			"validatingwebhookconfiguration": true, "customresourcedefinition": true},
	}); err != nil {
		return err
	}
	go func() {
		if err := manager.Start(ctx); err != nil {
			klog.ErrorS(err, "CA injector ended")
		}
	}()
	return nil
}

func main() {
	klog.InitFlags(nil)
	kubeconfig := flag.String("kubeconfig-file", "", "the API, with the rights of the controllers")
	port := flag.Int("webhook-port", 0, "of the admission webhook; 0: none and no injector")
	health := flag.Int("webhook-health-port", 0, "of its health checks")
	asWebhook := flag.String("webhook-kubeconfig", "", "the API, with the rights of the webhook")
	asInjector := flag.String("injector-kubeconfig", "", "the API, with the rights of the CA injector")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctrl.SetLogger(klog.Background())
	run := func(err error) {
		if err != nil {
			klog.ErrorS(err, "cannot start")
			os.Exit(1)
		}
	}
	if *port != 0 {
		run(admission(ctx, *asWebhook, *port, *health))
		run(injector(ctx, *asInjector))
	}
	run(controllers(ctx, *kubeconfig))
	<-ctx.Done()
}
