package decide

import "tensorstack.dev/jobs/common/plan/view"

// unclear returns the main containers whose whole output might show that another failure was the root cause. It
// returns nil if the root cause is clear, or if there is none.
func unclear(v view.View) []view.Container {
	root := v.RootCause()
	if root == nil || !root.Failure.IsUnclear() {
		return nil
	}
	var containers []view.Container
	for _, r := range v.Replicas {
		if failure := r.Failure(); failure != nil && r.Pod != nil && failure.IsUnclear() {
			containers = append(containers, view.Container{Pod: r.Pod.Name, Name: r.MainContainer})
		}
	}
	return containers
}
