package plan

// The tests also check these functions. They are in package plan_test, because package jobtest, which builds their
// objects, imports this package.
var (
	OnlyFollowsReplicas    = onlyFollowsReplicas
	WithoutReplicas        = withoutReplicas
	IsDelayableFirstStatus = isDelayableFirstStatus
)
