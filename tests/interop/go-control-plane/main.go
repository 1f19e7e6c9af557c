// SPDX-License-Identifier: Apache-2.0

// A control plane and a data plane made with go-control-plane, for tests.
//
//	plane serve                          snapshots from standard input, one JSON line each:
//	                                     {"version": "1", "resources": [{"@type": ...}]}
//	plane watch ADDR CA TOKEN-FILE REFUSE  a delta client: a line for each response; those of the
//	                                     type REFUSE are answered with a NACK
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
)

func die(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func say(v any) {
	line, err := json.Marshal(v)
	die(err)
	fmt.Println(string(line))
}

// everybody: one snapshot for whoever asks.
type everybody struct{}

func (everybody) ID(*core.Node) string { return "all" }

func answered(r *discovery.DeltaDiscoveryRequest) {
	if r.GetResponseNonce() == "" {
		return
	}
	say(map[string]any{"type": r.GetTypeUrl(), "ok": r.GetErrorDetail() == nil, "why": r.GetErrorDetail().GetMessage()})
}

func snapshot(line []byte) (*cache.Snapshot, error) {
	var in struct {
		Version   string
		Resources []json.RawMessage
	}
	if err := json.Unmarshal(line, &in); err != nil {
		return nil, err
	}
	all := map[resource.Type][]types.Resource{}
	for _, raw := range in.Resources {
		var any anypb.Any
		if err := protojson.Unmarshal(raw, &any); err != nil {
			return nil, err
		}
		m, err := any.UnmarshalNew()
		if err != nil {
			return nil, err
		}
		all[any.GetTypeUrl()] = append(all[any.GetTypeUrl()], m.(types.Resource))
	}
	return cache.NewSnapshot(in.Version, all)
}

func serve() {
	snapshots := cache.NewSnapshotCache(true, everybody{}, nil)
	ads := server.NewServer(context.Background(), snapshots, server.CallbackFuncs{
		StreamDeltaRequestFunc: func(_ int64, r *discovery.DeltaDiscoveryRequest) error { answered(r); return nil },
	})
	s := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(s, ads)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	die(err)
	say(map[string]any{"port": l.Addr().(*net.TCPAddr).Port})
	go func() { die(s.Serve(l)) }()
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		snap, err := snapshot(in.Bytes())
		die(err)
		die(snapshots.SetSnapshot(context.Background(), "all", snap))
	}
}

// nameOf decodes a resource with the types of another implementation.
func nameOf(any *anypb.Any) (string, error) {
	m, err := any.UnmarshalNew()
	if err != nil {
		return "", err
	}
	switch r := m.(type) {
	case *cluster.Cluster:
		return r.GetName(), nil
	case *endpoint.ClusterLoadAssignment:
		return r.GetClusterName(), nil
	case *listener.Listener:
		return r.GetName(), nil
	case *route.RouteConfiguration:
		return r.GetName(), nil
	case *auth.Secret:
		return r.GetName(), nil
	}
	return "", fmt.Errorf("a %s", any.GetTypeUrl())
}

// hostsOf says what a table of routes is for.
func hostsOf(any *anypb.Any) (hosts []string) {
	var table route.RouteConfiguration
	if any.UnmarshalTo(&table) == nil {
		for _, v := range table.GetVirtualHosts() {
			hosts = append(hosts, v.GetDomains()...)
		}
	}
	return hosts
}

func watch(addr, ca, tokenFile, refuse string) {
	pem, err := os.ReadFile(ca)
	die(err)
	token, err := os.ReadFile(tokenFile)
	die(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots})))
	die(err)
	ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+strings.TrimSpace(string(token)))
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	die(err)
	node := &core.Node{Id: "go-control-plane", Cluster: "interop"}
	for _, t := range []string{resource.ClusterType, resource.EndpointType, resource.ListenerType, resource.RouteType} {
		die(stream.Send(&discovery.DeltaDiscoveryRequest{Node: node, TypeUrl: t, ResourceNamesSubscribe: []string{"*"}}))
	}
	for {
		r, err := stream.Recv()
		die(err)
		names, hosts := []string{}, []string{}
		for _, res := range r.GetResources() {
			name, err := nameOf(res.GetResource())
			die(err)
			if name != res.GetName() {
				die(fmt.Errorf("'%s' is called '%s'", name, res.GetName()))
			}
			names = append(names, name)
			hosts = append(hosts, hostsOf(res.GetResource())...)
		}
		answer := &discovery.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}
		if r.GetTypeUrl() == refuse {
			answer.ErrorDetail = &status.Status{Code: 3, Message: "refused for a test"}
		}
		die(stream.Send(answer))
		say(map[string]any{"type": r.GetTypeUrl(), "names": names, "hosts": hosts, "removed": r.GetRemovedResources()})
	}
}

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "serve":
		serve()
	case len(os.Args) == 6 && os.Args[1] == "watch":
		watch(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	default:
		die(fmt.Errorf("usage: plane serve | plane watch ADDR CA TOKEN-FILE REFUSE"))
	}
}
