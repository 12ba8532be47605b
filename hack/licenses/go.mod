// The tool that collects the licenses for images and archives. It is a module of its own, so that hack/tools does not get its
// dependencies.
module tensorstack.dev/jobs/hack/licenses

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/google/go-licenses/v2 v2.0.1
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/go-logr/logr v1.2.0 // indirect
	github.com/golang/groupcache v0.0.0-20210331224755-41bb18bfe9da // indirect
	github.com/google/licenseclassifier/v2 v2.0.0 // indirect
	github.com/sergi/go-diff v1.2.0 // indirect
	go.opencensus.io v0.24.0 // indirect
	golang.org/x/mod v0.27.0 // indirect
	golang.org/x/net v0.43.0 // indirect
	golang.org/x/sync v0.16.0 // indirect
	golang.org/x/tools v0.36.0 // indirect
	k8s.io/klog/v2 v2.90.1 // indirect
)
