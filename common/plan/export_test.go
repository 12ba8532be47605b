package plan

// These are exported for the tests. The tests are in package plan_test, because they use package jobtest, which
// imports this package.
var (
	OnlyFollowsReplicas    = onlyFollowsReplicas
	WithoutReplicas        = withoutReplicas
	IsDelayableFirstStatus = isDelayableFirstStatus
)
