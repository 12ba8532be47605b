package explore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/kit/model"
)

// nodeExplorations returns the small jobs whose nodes and devices fail.
func nodeExplorations() []exploration {
	every := spent{edits: 1, crashes: 1, staleReads: 1, lostEvents: 1, conflicts: 1, nodes: 2}
	few := spent{edits: 1, crashes: 1, nodes: 2}
	losesDevice := []string{"loses its device"}
	onlyNode := exploration{hasOneNode: true, nodeFaults: losesDevice, budget: few, briefly: 1, inTurn: true}
	explorations := []exploration{
		{
			name:     "a job of one replica restarts when a device is unhealthy",
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails", "is deleted"}, edits: []edit{pauses},
			nodeFaults: []string{"loses its device", "gets its device back", "forgets its device", "has a tainted device"},
			budget:     spent{failures: 1, edits: 1, crashes: 1, staleReads: 1, lostEvents: 1, conflicts: 1, nodes: 1},
			briefly:    2,
		},
		{
			name:       "a job with the restart policy ExitCode restarts when a device is unhealthy",
			shape:      model.One(model.ExitCode, model.Limit(1)),
			failures:   []string{"fails", "is killed"},
			nodeFaults: []string{"loses its device", "gets its device back"},
			budget:     spent{failures: 2, crashes: 1, conflicts: 1, nodes: 2}, briefly: 2, inTurn: true,
		},
		{
			name:       "a job whose replicas never restart goes on with an unhealthy device",
			shape:      model.One(model.Never),
			failures:   []string{"fails", "is deleted"},
			nodeFaults: []string{"loses its device", "gets its device back"},
			budget:     spent{failures: 1, crashes: 1, staleReads: 1, nodes: 1}, briefly: 2,
		},
		{
			name:     "a job that restarts as a whole loses a device while a peer fails",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails"}, nodeFaults: losesDevice,
			budget: spent{failures: 1, crashes: 1, nodes: 1}, briefly: 1, inTurn: true,
		},
		{
			name:     "a job whose replicas restart alone loses a device while a peer fails",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)),
			failures: []string{"fails"}, nodeFaults: losesDevice,
			budget: spent{failures: 1, crashes: 1, nodes: 1}, briefly: 1, inTurn: true,
		},
		{
			name:       "a job of one replica avoids a node that fails twice",
			shape:      model.OnZones(model.One(model.OnFailure, model.Limit(1))),
			nodeFaults: []string{"loses its device", "finds no node"},
			budget:     spent{crashes: 1, conflicts: 1, nodes: 3}, briefly: 1, inTurn: true,
		},
		{
			name:       "a job of one replica avoids a node that is lost twice",
			shape:      model.One(model.OnFailure, model.Limit(1)),
			nodeFaults: []string{"loses its node"},
			budget:     few, edits: []edit{pauses, resumes}, briefly: 1, inTurn: true,
		},
		{
			name:       "a job of one replica whose node Kueue assigns avoids no node",
			shape:      model.WithTopology(model.One(model.OnFailure, model.Limit(1))),
			nodeFaults: losesDevice, budget: few, briefly: 1, inTurn: true,
		},
		{
			name:       "a job of one replica that ignores bad nodes avoids no node",
			shape:      model.One(model.OnFailure, model.Limit(1), model.IgnoresNodes),
			nodeFaults: losesDevice, budget: few, briefly: 1, inTurn: true,
		},
	}
	for _, waits := range []exploration{
		{
			name:  "a job of one replica avoids its only node until it has waited for a while",
			shape: model.One(model.OnFailure, model.Limit(1)), edits: []edit{pauses, resumes}, budget: every,
		},
		{
			name:  "a job of one replica avoids its only node while its controller is away for a long time",
			shape: model.One(model.OnFailure, model.Limit(1)), budget: spent{aways: 1, nodes: 2},
		},
		{
			name:  "a job of one replica avoids its only node in spite of delayed writes",
			shape: model.One(model.OnFailure, model.Limit(1)), budget: spent{lates: 1, nodes: 2},
		},
		{
			name:       "a gang of one replica avoids its only node until it has waited for a while",
			shape:      model.InQueue(model.One(model.OnFailure, model.Limit(1))),
			queueEdits: []edit{closesQueue, deletesGroup}, budget: few,
		},
		{
			name:       "a job of one replica that Kueue admits avoids its only node until it has waited for a while",
			shape:      model.InKueue(model.One(model.OnFailure, model.Limit(1))),
			kueueEdits: []edit{evicts}, budget: few,
		},
		{
			name:  "an elastic job avoids the only node of a replica until it has waited for a while",
			shape: model.Elastic(1, 2, model.ScopeReplica, model.Limit(1)), budget: spent{nodes: 2},
		},
	} {
		x := onlyNode
		x.name, x.shape, x.added, x.budget = waits.name, waits.shape, waits.added, waits.budget
		x.edits, x.queueEdits, x.kueueEdits = waits.edits, waits.queueEdits, waits.kueueEdits
		explorations = append(explorations, x)
	}
	return append(explorations, []exploration{
		{
			name:       "a job that restarts as a whole avoids a node that fails twice",
			shape:      model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			nodeFaults: losesDevice,
			budget:     spent{nodes: 2}, briefly: 1, inTurn: true,
		},
		{
			name:       "a job of two replicas avoids no node that both lose together",
			shape:      model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)),
			nodeFaults: losesDevice, sharesNodes: true,
			budget: spent{nodes: 2}, briefly: 1, inTurn: true,
		},
	}...)
}

// starts returns the event that happens to a pending pod by itself, and the name of the event: the pod starts on a
// node, or the scheduler finds no node. Nil means that neither happens.
func (x options) starts(pod *corev1.Pod) (string, model.Mishap) {
	switch {
	case !x.hasOneNode || !model.AvoidsNodes(pod):
		if x.sharesNodes {
			return "runs", model.RunsOnSharedNode
		}
		return "runs", model.Runs
	case !kubelet.IsUnschedulable(pod):
		return "finds no node", model.FindsNoNode
	default:
		return "", nil
	}
}

// nodeActions returns the actions that the node or the device of a pod causes.
func (x options) nodeActions(s *state, pod *corev1.Pod) []action {
	var actions []action
	add := func(name string, do func(*machine)) {
		name = "pod " + pod.Labels[batchv1beta1.LabelReplicaIndex] + " " + name
		actions = append(actions, action{name: name, do: do})
	}
	fault := func(name string, what model.Mishap) {
		if s.spent.nodes >= x.budget.nodes || !slices.Contains(x.nodeFaults, name) {
			return
		}
		add(name, func(m *machine) {
			m.state.spent.nodes++
			if name == "loses its device" {
				m.state.broken++
			}
			m.owe(pod, true)
			m.happen(pod, what)
			m.goesSoon(pod)
		})
	}
	hasNode := pod.Status.Phase == corev1.PodRunning && kubelet.IsTraining(pod)
	switch {
	case pod.DeletionTimestamp != nil:
	case pod.Status.Phase == corev1.PodPending && model.AvoidsNodes(pod) && !kubelet.IsUnschedulable(pod):
		fault("finds no node", model.FindsNoNode)
	case hasNode && kubelet.HasUnhealthyDevice(pod):
		if !slices.Contains(x.nodeFaults, "gets its device back") {
			break
		}
		add("gets its device back", func(m *machine) { m.happen(pod, model.GetsItsDeviceBack) })
	case hasNode:
		fault("loses its node", model.LosesItsNode)
		fault("has a tainted device", model.HasTaintedDevice)
		fault("forgets its device", model.ForgetsItsDevice)
		fault("loses its device", model.LosesItsDevice)
	}
	return actions
}

// waitsTooLong reports whether a pod that avoids nodes cannot be scheduled and the next requeue of the job is later
// than avoidPatience allows. The caller must ensure that only time can pass in the state, because any other event
// could enqueue a reconcile earlier.
func waitsTooLong(k model.Kind, s *state) bool {
	job := s.live.Objects.Job()
	if job == nil || job.JobStatus().Decided() || k.SpecOf(job).RunMode.Pausing() {
		return false
	}
	return s.RequeueAt.After(s.now.Add(avoidPatience)) &&
		slices.ContainsFunc(s.live.Objects.Pods(), func(pod *corev1.Pod) bool {
			return model.AvoidsNodes(pod) && kubelet.IsUnschedulable(pod) && pod.DeletionTimestamp == nil &&
				model.AttemptLabel(pod) == model.AttemptOf(*job.JobStatus(), pod.Name)
		})
}

// countDeviceFailures checks that each unhealthy device is recorded as at most one failure.
func (m *machine) countDeviceFailures(change model.Change) {
	before, wasJob := change.Before.(framework.Job)
	after, isJob := change.After.(framework.Job)
	if !wasJob || !isJob {
		return
	}
	for _, failure := range model.NewNodeFaults(*before.JobStatus(), *after.JobStatus()) {
		if failure.Reason != batchv1beta1.ReasonDeviceUnhealthy {
			continue
		}
		if m.state.broken--; m.state.broken < 0 {
			m.Errorf("the status has more failures because of unhealthy devices than there were: %+v", failure)
			m.state.broken = 0
		}
	}
}

// In an encoding, these texts precede the time of a node fault and the time at which a pod was created. Only the
// order of these times matters, and not the intervals between them.
const (
	faultText   = "@fault-"
	createdText = "@created-"
)

// faultOf returns the encoding of a failure. It has the node and the time if the node has caused the failure, and is
// empty otherwise.
func faultOf(failure batchv1beta1.ReplicaFailure) string {
	if failure.Node == "" || !policy.IsNodeFault(failure.Reason) {
		return ""
	}
	return fmt.Sprintf("%s %s%d ", failure.Node, faultText, failure.Time.Unix())
}

// avoidanceOf returns the encoding of the nodes that a pod avoids, and of the times that decide whether later pods
// avoid the node of this pod.
func avoidanceOf(pod *corev1.Pod) string {
	var b strings.Builder
	if nodes, isSame := model.NodesAvoidedBy(pod); len(nodes) > 0 {
		fmt.Fprintf(&b, "avoids %q %t %s ", nodes, isSame, pod.Annotations[batchv1beta1.AnnotationAvoidsNode])
	}
	if !pod.CreationTimestamp.IsZero() { // the pod of a delayed write has no creation time yet
		fmt.Fprintf(&b, "%s%d ", createdText, pod.CreationTimestamp.Unix())
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && policy.IsNodeFault(policy.Disruption(pod)) {
			fmt.Fprintf(&b, "%s%d ", faultText, c.LastTransitionTime.Unix())
		}
	}
	return b.String()
}

// orderToken returns the token at the beginning of a text, and its length.
func orderToken(text string) (token, int) {
	start := strings.IndexByte(text, '-') + 1
	end := start
	for end < len(text) && '0' <= text[end] && text[end] <= '9' {
		end++
	}
	at, err := strconv.ParseInt(text[start:end], 10, 64)
	if err != nil {
		panic(err) // the encoder writes only numbers
	}
	if strings.HasPrefix(text, faultText) {
		return token{fault: at}, end
	}
	return token{created: at}, end
}

// sortFaults collects the times of all faults in the tokens, sorted and without duplicates.
func (e *encoder) sortFaults() {
	e.faults = e.faults[:0]
	for _, t := range e.tokens {
		if t.fault != 0 {
			e.faults = append(e.faults, t.fault)
		}
	}
	slices.Sort(e.faults)
	e.faults = slices.Compact(e.faults)
}

// order returns the number of faults before the time of a token. For the time at which a pod was created, faults in
// the same second also count, since the pod was created after them.
func (e *encoder) order(t token) int64 {
	at := t.fault
	if t.created != 0 {
		at = t.created + 1
	}
	n, _ := slices.BinarySearch(e.faults, at)
	return int64(n)
}
