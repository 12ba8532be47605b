package why

import corev1 "k8s.io/api/core/v1"

// outOfMemory returns the entry for a container that used more memory than its limit.
func outOfMemory(v view, _ condition) entry {
	e := entry{
		cause: "{who} was killed because it used more memory than its limit" + v.memoryLimit() + ".",
		do:    "Use less memory, for example with a smaller batch or fewer workers of the data loader, or raise the limit.",
		next:  []step{readFailed}, fix: "raise resources.limits.memory", see: seeFailed,
	}
	return e
}

// memoryLimit returns the memory limit of the replica that failed, as part of a sentence.
func (v view) memoryLimit() string {
	failure := v.Job.LastFailure()
	if failure == nil {
		return ""
	}
	main := v.mainContainer(failure.Replica)
	if main == nil {
		return ""
	}
	limit, ok := main.Resources.Limits[corev1.ResourceMemory]
	if !ok {
		return ". The template sets no limit, so it is that of the namespace or of the node"
	}
	return " of " + limit.String()
}
