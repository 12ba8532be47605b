package why

import "fmt"

// nodeLost returns the entry for a replica that was lost with its node.
func nodeLost(v view, _ condition) entry {
	return entry{
		cause: "{who} was lost with its node, which does not answer, is gone, or was restarted.",
		do:    sentences("This is no failure of the program.", v.willAvoid()),
		next:  []step{describeNode, podEventsOf}, see: seeBadNodes,
	}
}

// deviceUnhealthy returns the entry for a replica that failed because of a device that the kubelet reports as
// unhealthy.
func deviceUnhealthy(v view, _ condition) entry {
	devices := "a device, such as a GPU,"
	if failure := v.Job.LastFailure(); failure != nil && len(failure.Devices) > 0 {
		var names []string
		for _, d := range failure.Devices[:min(len(failure.Devices), 3)] {
			names = append(names, clean(d.Resource)+" "+clean(d.ID))
		}
		devices = "device " + listed(names)
		if more := len(failure.Devices) - len(names); more > 0 {
			devices += fmt.Sprintf(" and %d more", more)
		}
	}
	return entry{
		cause: fmt.Sprintf("{who} failed because the kubelet reports %s as unhealthy.", devices),
		do: sentences("This is no failure of the program, and the restart does not count.", v.willAvoid(),
			"Report the device to an administrator."),
		next: []step{describeNode, listPods}, see: seeBadNodes,
	}
}

// deviceTainted returns the entry for a replica that lost a device because the device has a taint with the effect
// NoExecute.
func deviceTainted(v view, _ condition) entry {
	return entry{
		cause: "{who} lost a device, such as a GPU, because the device has a taint with the effect NoExecute.",
		do: sentences("This is no failure of the program.", v.willAvoid(),
			"An administrator can find the device in the ResourceClaim of the pod."),
		next: []step{{purpose: "List the claims for devices", line: "kubectl get resourceclaims"}, describeNode},
		see:  seeBadNodes,
	}
}

// willAvoid returns a sentence: if such a failure happens a second time on the node, new pods of the job will avoid
// the node. The sentence is empty if the job already avoids nodes.
func (v view) willAvoid() string {
	if len(v.status.AvoidedNodes) > 0 {
		return ""
	}
	return "After the second time, new pods of the job avoid the node."
}
