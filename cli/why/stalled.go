package why

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// noProgress returns the entry for a training that is stalled. It names the replicas that most likely hang.
func noProgress(v view, c condition) entry {
	e := entry{
		cause: sentence(c.message) + ".",
		do:    "If an evaluation or a checkpoint takes this long, the deadline is too short: raise it in runPolicy.",
		see:   seeStalled,
	}
	replicas := v.Job.Replicas()
	suspects := v.suspects(replicas)
	e.cause += v.reporter(replicas)
	for _, s := range suspects[:min(len(suspects), maxSuspects)] {
		e.cause += fmt.Sprintf(" Replica %s %s.", described(s.Name, &s.Rank, clean(s.node)), s.problem)
	}
	if more := len(suspects) - maxSuspects; more > 0 {
		e.cause += fmt.Sprintf(" %d more replicas might hang, too.", more)
	}
	if len(suspects) == 0 && len(replicas) > 1 {
		e.cause += " The status does not show which replica hangs."
	}
	switch {
	case v.spec.HasLauncher || len(replicas) < 2: // the log of the leader has the output of all ranks
		e.next = []step{readLogs}
	default:
		if len(suspects) > 0 {
			e.next = []step{{
				purpose: fmt.Sprintf("Read the output of the replica of rank %d", suspects[0].Rank),
				line:    fmt.Sprintf("kubectl train logs {job} --rank=%d", suspects[0].Rank),
			}}
		}
		e.next = append(e.next, step{
			purpose: "Compare the last output of all replicas: the one that hangs often prints something else, or nothing",
			line:    "kubectl train logs {job} --all --tail=5",
		})
	}
	e.next = append(e.next, listPods)
	return e
}

// reporter returns the sentence about the replica that reports the progress. The sentence is empty if no replica has
// reported progress.
func (v view) reporter(replicas []jobs.Replica) string {
	p := v.status.Progress
	if p == nil || p.Replica == "" {
		return ""
	}
	var rank *int32
	if i := slices.IndexFunc(replicas, func(r jobs.Replica) bool { return r.Name == p.Replica }); i >= 0 {
		rank = &replicas[i].Rank
	}
	who := " Replica " + described(clean(p.Replica), rank, "") + " reports the progress"
	if len(replicas) < 2 {
		return who + "."
	}
	return who + ", and often waits for another one that hangs."
}

// maxSuspects is the maximum number of suspects that the explanation names.
const maxSuspects = 3

// suspect is a replica that might hang, or that the others might wait for in vain.
type suspect struct {
	jobs.Replica

	node string
	// problem is the predicate of a sentence about the replica. A lower weight means a stronger suspicion.
	problem string
	weight  int
}

// suspects returns the replicas that might hang, the most likely first. A replica that hangs usually looks like the
// others, so the result can be empty.
func (v view) suspects(replicas []jobs.Replica) []suspect {
	statuses := map[string]batchv1beta1.ReplicaStatus{}
	for status := range v.status.EachReplica() {
		statuses[status.Name] = *status
	}
	var found []suspect
	for _, r := range replicas {
		status, pod := statuses[r.Name], v.pod(r.Name)
		s := suspect{Replica: r, node: status.Node}
		switch devices := policy.UnhealthyDevices(pod, r.MainContainer); {
		case len(devices) > 0:
			s.problem = fmt.Sprintf("might hang, since its %s %s is unhealthy", clean(devices[0].Resource), clean(devices[0].ID))
		case isSilent(pod) || status.Phase == batchv1beta1.ReplicaPhaseUnknown:
			s.problem, s.weight = "is not ready, perhaps because its node does not answer", 1
		case status.Phase == batchv1beta1.ReplicaPhaseSucceeded:
			s.problem, s.weight = "has ended, and the others might wait for it", 2
		default:
			continue
		}
		if pod != nil {
			s.node = cmp.Or(pod.Spec.NodeName, s.node)
		}
		found = append(found, s)
	}
	slices.SortStableFunc(found, func(a, b suspect) int { return cmp.Compare(a.weight, b.weight) })
	return found
}

// notReady returns the replicas whose pods run but are not ready, with their nodes. It names at most three replicas,
// and counts the others.
func (v view) notReady() []string {
	var names []string
	for i := range v.Pods {
		pod := &v.Pods[i]
		if !isSilent(pod) {
			continue
		}
		name := pod.Name
		if pod.Spec.NodeName != "" {
			name += " on node " + pod.Spec.NodeName
		}
		names = append(names, name)
	}
	if len(names) > 3 {
		names = append(names[:3], fmt.Sprintf("%d more", len(names)-3))
	}
	return names
}

// isSilent reports whether a pod runs, is not being deleted, and is not ready.
func isSilent(pod *corev1.Pod) bool {
	return pod != nil && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil && !isReady(*pod)
}

// isReady reports whether a pod is ready.
func isReady(pod corev1.Pod) bool {
	return policy.ConditionOf(&pod, corev1.PodReady).Status == corev1.ConditionTrue
}
