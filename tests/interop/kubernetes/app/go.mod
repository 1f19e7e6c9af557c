module spanwire.dev/interop/kubernetes/app

go 1.26.0
