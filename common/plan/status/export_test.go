package status

// The tests also check these functions. They are in package status_test, because package jobtest, whose helpers they
// use, imports this package.
var (
	ContainerStatus = containerStatus
	BoundOf         = boundOf
)
