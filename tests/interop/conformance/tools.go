// SPDX-License-Identifier: Apache-2.0

//go:build tools

package conformance

// The backends are upstream's server, which no file here imports.
import _ "sigs.k8s.io/gateway-api/conformance/echo-basic"
