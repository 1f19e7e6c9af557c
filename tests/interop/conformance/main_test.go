// SPDX-License-Identifier: Apache-2.0

// Package conformance starts the Gateway API's own conformance suite. What to test it takes from
// the flags of the suite and from the status of the GatewayClass.
package conformance

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
)

// A log is the kubelet's: an API server only passes such a request on.
type podLogs struct {
	kubelet *url.URL
	next    http.RoundTripper
}

func (p *podLogs) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.Path, "/pods/") || !strings.HasSuffix(r.URL.Path, "/log") {
		return p.next.RoundTrip(r)
	}
	there := r.Clone(r.Context())
	there.URL.Scheme, there.URL.Host, there.Host = p.kubelet.Scheme, p.kubelet.Host, p.kubelet.Host
	return http.DefaultTransport.RoundTrip(there)
}

func TestConformance(t *testing.T) {
	kubelet, err := url.Parse(os.Getenv("KUBELET"))
	if err != nil || kubelet.Host == "" {
		t.Fatal("KUBELET names no address")
	}
	options := conformance.DefaultOptions(t)
	// The suite makes new clients from this for every test. It waits for us, not we for it.
	options.RestConfig.QPS = -1
	options.RestConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &podLogs{kubelet: kubelet, next: next}
	})
	options.ConformanceProfiles = []suite.ConformanceProfileName{
		suite.GatewayHTTPConformanceProfileName,
		suite.GatewayTLSConformanceProfileName,
		suite.GatewayTCPConformanceProfileName,
		suite.GatewayUDPConformanceProfileName,
		suite.GatewayGRPCConformanceProfileName,
	}
	conformance.RunConformanceWithOptions(t, options)
}
