package status

// These are exported for the tests. The tests are in package status_test, because they use package jobtest, which
// imports this package.
var (
	ContainerStatus = containerStatus
	BoundOf         = boundOf
)
