// SPDX-License-Identifier: Apache-2.0

//go:build tools

package tools

// The programs that 'prepare' builds, which no file here imports.
import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
