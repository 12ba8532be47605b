package policy

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// lostByNode is the message of a failure whose container the node has lost.
const lostByNode = "the node lost the container, as after a restart of the node"

var (
	created = time.Date(2026, time.March, 1, 11, 0, 0, 0, time.UTC)
	ended   = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
)

// podIn returns a pod in a phase, with the given container statuses.
func podIn(phase corev1.PodPhase, statuses ...corev1.ContainerStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", CreationTimestamp: metav1.NewTime(created)},
		Status:     corev1.PodStatus{Phase: phase, ContainerStatuses: statuses},
	}
}

func runs(container string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func ready(status corev1.ContainerStatus) corev1.ContainerStatus {
	status.Ready = true
	return status
}

func ends(container string, code int32) corev1.ContainerStatus {
	reason := "Error"
	if code == 0 {
		reason = "Completed"
	}
	return endsFor(container, code, reason, "")
}

func endsFor(container string, code int32, reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: container,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: reason, Message: message, FinishedAt: metav1.NewTime(ended),
		}},
	}
}

// fetchFailed is the message of a failure of the init container "fetch".
const fetchFailed = "the init container fetch failed"

// restartedInPlace is the message of a failure whose container was restarted in its pod.
const restartedInPlace = "the main container was restarted in its pod"

// restarted returns the status of a container that the kubelet restarted after it had exited with a code.
func restarted(status corev1.ContainerStatus, code int32, reason string) corev1.ContainerStatus {
	status.RestartCount = 1
	status.LastTerminationState = endsFor("", code, reason, "").State
	return status
}

// because sets the reason and the message that the kubelet reports for a pod.
func because(reason, message string, pod *corev1.Pod) *corev1.Pod {
	pod.Status.Reason, pod.Status.Message = reason, message
	return pod
}

// initialized sets the statuses of a pod's init containers.
func initialized(pod *corev1.Pod, statuses ...corev1.ContainerStatus) *corev1.Pod {
	pod.Status.InitContainerStatuses = statuses
	return pod
}

func disruptedBy(reason string, pod *corev1.Pod) *corev1.Pod {
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason},
	}
	return pod
}

// disruptedAt adds a disruption to a pod. The disruption began the given time after the containers of the pod ended.
func disruptedAt(d time.Duration, reason string, pod *corev1.Pod) *corev1.Pod {
	pod = disruptedBy(reason, pod)
	pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(ended.Add(d))
	return pod
}

// conditioned sets the conditions of a pod.
func conditioned(pod *corev1.Pod, conditions ...corev1.PodCondition) *corev1.Pod {
	pod.Status.Conditions = conditions
	return pod
}

func deleting(pod *corev1.Pod) *corev1.Pod {
	pod.DeletionTimestamp = new(metav1.NewTime(ended))
	return pod
}

// deletedAfter marks a pod as deleted with a grace period. The deletion was requested the given time after the
// containers of the pod ended.
func deletedAfter(d time.Duration, pod *corev1.Pod) *corev1.Pod {
	const grace = 60
	pod.DeletionGracePeriodSeconds = new(int64(grace))
	pod.DeletionTimestamp = new(metav1.NewTime(ended.Add(d + grace*time.Second)))
	return pod
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const (
		creating  = batchv1beta1.ReplicaPhaseCreating
		pending   = batchv1beta1.ReplicaPhasePending
		running   = batchv1beta1.ReplicaPhaseRunning
		succeeded = batchv1beta1.ReplicaPhaseSucceeded
		failed    = batchv1beta1.ReplicaPhaseFailed
		unknown   = batchv1beta1.ReplicaPhaseUnknown
	)
	notStarted := waits("main", "ContainerCreating")
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want Outcome
	}{
		"a replica without a pod is creating": {want: Outcome{Phase: creating}},
		"a pod that is not scheduled is pending": {
			pod:  podIn(corev1.PodPending),
			want: Outcome{Phase: pending},
		},
		"a pod whose main container is being created is pending, though a sidecar runs": {
			pod:  podIn(corev1.PodRunning, runs("sidecar"), notStarted),
			want: Outcome{Phase: pending},
		},
		"a pod whose main container runs is running": {
			pod:  podIn(corev1.PodRunning, runs("main")),
			want: Outcome{Phase: running},
		},
		"a pod whose main container is ready is ready": {
			pod:  podIn(corev1.PodRunning, ready(runs("main"))),
			want: Outcome{Phase: running, Ready: true},
		},
		"a running pod that is being deleted is not ready": {
			pod:  deleting(podIn(corev1.PodRunning, ready(runs("main")))),
			want: Outcome{Phase: running, Terminating: true},
		},
		"a pod in phase Unknown is unknown": {
			pod:  podIn(corev1.PodUnknown, runs("main")),
			want: Outcome{Phase: unknown},
		},
		"a main container that was restarted has failed with its first exit": {
			pod: podIn(corev1.PodRunning, restarted(ready(runs("main")), 137, "OOMKilled")),
			want: Outcome{Phase: failed, Failure: &Failure{
				ExitCode: ptr.To[int32](137), Reason: batchv1beta1.ReasonOOMKilled, Message: restartedInPlace, Time: ended,
			}},
		},
		"a main container in CrashLoopBackOff has failed": {
			pod: podIn(corev1.PodRunning, restarted(waits("main", "CrashLoopBackOff"), 3, "Error")),
			want: Outcome{Phase: failed, Failure: &Failure{
				ExitCode: ptr.To[int32](3), Reason: batchv1beta1.ReasonError, Message: restartedInPlace, Time: ended,
			}},
		},
		"a main container that was restarted after it had succeeded has failed": {
			pod: podIn(corev1.PodRunning, restarted(runs("main"), 0, "Completed")),
			want: Outcome{Phase: failed, Failure: &Failure{
				Reason: batchv1beta1.ReasonError, Message: restartedInPlace, Time: ended,
			}},
		},
		"a main container that was restarted after an unknown exit has failed": {
			pod: podIn(corev1.PodRunning, corev1.ContainerStatus{Name: "main", RestartCount: 1}),
			want: Outcome{Phase: failed, Failure: &Failure{
				Reason: batchv1beta1.ReasonError, Message: restartedInPlace, Time: created,
			}},
		},
		"a main container that was restarted and then succeeded has succeeded": {
			pod:  podIn(corev1.PodSucceeded, restarted(ends("main", 0), 3, "Error")),
			want: Outcome{Phase: succeeded},
		},
		"a restart of a sidecar is not a failure": {
			pod:  podIn(corev1.PodRunning, runs("main"), restarted(runs("sidecar"), 1, "Error")),
			want: Outcome{Phase: running},
		},
		"a pod whose main container exited with 0 has succeeded": {
			pod:  podIn(corev1.PodSucceeded, ends("main", 0)),
			want: Outcome{Phase: succeeded},
		},
		"a main container that exited with 0 has succeeded, though a sidecar still runs": {
			pod:  podIn(corev1.PodRunning, ends("main", 0), runs("sidecar")),
			want: Outcome{Phase: succeeded},
		},
		"a main container that exited with 0 has succeeded, though a sidecar failed": {
			pod:  podIn(corev1.PodFailed, ends("main", 0), ends("sidecar", 1)),
			want: Outcome{Phase: succeeded},
		},
		"the failure of an init container counts, not that of the sidecar that ended with it": {
			pod: initialized(podIn(corev1.PodFailed, waits("main", "PodInitializing")),
				ends("prepare", 0), ends("mesh", 143), ends("fetch", 3), waits("last", "PodInitializing")),
			want: Outcome{Phase: failed, Failure: &Failure{
				ExitCode: new(int32(3)), Init: true, Message: fetchFailed, Reason: "Error", Time: ended,
			}},
		},
		"a main container that exited with 0 has succeeded, though a sidecar was then killed": {
			pod:  initialized(podIn(corev1.PodSucceeded, ends("main", 0)), ends("mesh", 137)),
			want: Outcome{Phase: succeeded},
		},
		"a failure of a sidecar is not a failure while the main container runs": {
			pod:  podIn(corev1.PodRunning, runs("main"), ends("sidecar", 1)),
			want: Outcome{Phase: running},
		},
		"a main container that exited with 3 has failed": {
			pod: podIn(corev1.PodFailed, ends("main", 3)),
			want: Outcome{Phase: failed, Failure: &Failure{
				ExitCode: ptr.To[int32](3), Reason: batchv1beta1.ReasonError, Time: ended,
			}},
		},
		"a main container that exited with 3 has failed, though a sidecar still runs": {
			pod: podIn(corev1.PodRunning, runs("sidecar"), ends("main", 3)),
			want: Outcome{Phase: failed, Failure: &Failure{
				ExitCode: ptr.To[int32](3), Reason: batchv1beta1.ReasonError, Time: ended,
			}},
		},
		"a failure has the output of the container without trailing white space": {
			pod: podIn(corev1.PodFailed, endsFor("main", 137, "OOMKilled", "step 7\nstep 8\n")),
			want: Outcome{Phase: failed, Failure: &Failure{
				ExitCode: ptr.To[int32](137), Reason: batchv1beta1.ReasonOOMKilled, Output: "step 7\nstep 8", Time: ended,
			}},
		},
		"a failure has the last state of a progress bar, without escape sequences": {
			pod: podIn(corev1.PodFailed,
				endsFor("main", 1, "Error", "\r\x1b[32m 50%\x1b[0m\r\x1b[32m100%\x1b[0m\nValueError: no \x1b[1mdata\x1b[0m\n")),
			want: Outcome{Phase: failed, Failure: &Failure{
				ExitCode: ptr.To[int32](1), Reason: batchv1beta1.ReasonError, Output: "100%\nValueError: no data", Time: ended,
			}},
		},
		"a failure without a reason has the reason Error": {
			pod: podIn(corev1.PodFailed, endsFor("main", 3, "", "")),
			want: Outcome{Phase: failed, Failure: &Failure{
				ExitCode: ptr.To[int32](3), Reason: batchv1beta1.ReasonError, Time: ended,
			}},
		},
		"a failure of an init container has its name, its exit code and its output": {
			pod: func() *corev1.Pod {
				pod := podIn(corev1.PodFailed, notStarted)
				pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
					ends("wait", 0), endsFor("fetch", 6, "Error", "no route to host"),
				}
				return pod
			}(),
			want: Outcome{Phase: failed, Failure: &Failure{
				Init: true, ExitCode: ptr.To[int32](6), Reason: batchv1beta1.ReasonError, Message: fetchFailed,
				Output: "no route to host", Time: ended,
			}},
		},
		"an eviction for too much ephemeral storage counts": {
			pod: because("Evicted", "ephemeral local storage usage exceeds",
				podIn(corev1.PodFailed, endsFor("main", 137, "Error", ""))),
			want: Outcome{Phase: failed, Failure: &Failure{
				ExitCode: ptr.To[int32](137), Reason: "Evicted", Message: "ephemeral local storage usage exceeds", Time: ended,
			}},
		},
		"an eviction of a pod whose container the runtime no longer knew counts": {
			pod: func() *corev1.Pod {
				lost := waits("main", "ContainerCreating")
				lost.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
					ExitCode: 137, Reason: "ContainerStatusUnknown",
					Message: "The container could not be located when the pod was deleted.",
				}
				pod := because("Evicted", "ephemeral local storage usage exceeds ", podIn(corev1.PodFailed, lost))
				pod.Status.Conditions = []corev1.PodCondition{
					{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(created)},
					{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(ended)},
				}
				return pod
			}(),
			want: Outcome{Phase: failed, Failure: &Failure{
				Reason: "Evicted", Message: "ephemeral local storage usage exceeds", Time: ended,
			}},
		},
		"a container that containerd has lost is a fault of the node": {
			pod: podIn(corev1.PodFailed, endsFor("main", 255, "Unknown", "")),
			want: Outcome{Phase: failed, Failure: &Failure{
				Reason: batchv1beta1.ReasonNodeLost, Message: lostByNode, Ignored: true,
			}},
		},
		"a container that the runtime no longer knew is a fault of the node": {
			pod: podIn(corev1.PodFailed, endsFor("main", 137, "ContainerStatusUnknown", "The container could not be located")),
			want: Outcome{Phase: failed, Failure: &Failure{
				Reason: batchv1beta1.ReasonNodeLost, Message: lostByNode, Ignored: true,
			}},
		},
		"an init container that the node has lost is a fault of the node": {
			pod: func() *corev1.Pod {
				pod := podIn(corev1.PodFailed, notStarted)
				pod.Status.InitContainerStatuses = []corev1.ContainerStatus{endsFor("fetch", 255, "Unknown", "")}
				return pod
			}(),
			want: Outcome{Phase: failed, Failure: &Failure{
				Init: true, Reason: batchv1beta1.ReasonNodeLost, Message: lostByNode, Ignored: true,
			}},
		},
		"a program that exits with 255 has failed": {
			pod: podIn(corev1.PodFailed, endsFor("main", 255, "Error", "")),
			want: Outcome{Phase: failed, Failure: &Failure{
				ExitCode: ptr.To[int32](255), Reason: batchv1beta1.ReasonError, Time: ended,
			}},
		},
		"a long message of the kubelet is truncated": {
			pod: because("Evicted", strings.Repeat("x", 5000), podIn(corev1.PodFailed)),
			want: Outcome{Phase: failed, Failure: &Failure{
				Reason: "Evicted", Message: strings.Repeat("x", 1021) + "...", Time: created, Ignored: true,
			}},
		},
		"an error of the kubelet about reading the output is not the output": {
			pod: podIn(corev1.PodFailed,
				endsFor("main", 1, "Error", "Error on reading termination message from logs: open /var/log/pods/x")),
			want: Outcome{Phase: failed, Failure: &Failure{
				ExitCode: ptr.To[int32](1), Reason: batchv1beta1.ReasonError, Time: ended,
			}},
		},
		"an eviction because of node pressure is ignored": {
			pod: disruptedBy("TerminationByKubelet", because("Evicted", "the node was low on memory",
				podIn(corev1.PodFailed, endsFor("main", 137, "Error", "")))),
			want: Outcome{Phase: failed, Disruption: batchv1beta1.ReasonNodeShutdown, Failure: &Failure{
				ExitCode: ptr.To[int32](137), Reason: "Evicted", Message: "the node was low on memory", Time: ended, Ignored: true,
			}},
		},
		"a pod that the kubelet rejected is ignored": {
			pod: because("OutOfcpu", "node is full", podIn(corev1.PodFailed)),
			want: Outcome{Phase: failed, Failure: &Failure{
				Reason: "OutOfcpu", Message: "node is full", Time: created, Ignored: true,
			}},
		},
		"a pod that the kubelet did not admit is ignored, though it has container statuses": {
			pod: because("UnexpectedAdmissionError", "no device", podIn(corev1.PodFailed, notStarted)),
			want: Outcome{Phase: failed, Failure: &Failure{
				Reason: "UnexpectedAdmissionError", Message: "no device", Time: created, Ignored: true,
			}},
		},
		"a failure after an init container had run counts": {
			pod: func() *corev1.Pod {
				pod := because("DeadlineExceeded", "pod was active too long", podIn(corev1.PodFailed, notStarted))
				pod.Status.InitContainerStatuses = []corev1.ContainerStatus{ends("fetch", 0)}
				return pod
			}(),
			want: Outcome{Phase: failed, Failure: &Failure{
				Reason: "DeadlineExceeded", Message: "pod was active too long", Time: created,
			}},
		},
		"a pod that fails while it is being deleted is terminating": {
			pod: deleting(podIn(corev1.PodFailed, ends("main", 143))),
			want: Outcome{Phase: failed, Terminating: true, Failure: &Failure{
				ExitCode: ptr.To[int32](143), Reason: batchv1beta1.ReasonError, Time: ended,
			}},
		},
		"a success 30 s before the deletion of the pod counts": {
			pod:  deletedAfter(30*time.Second, podIn(corev1.PodRunning, ends("main", 0), runs("sidecar"))),
			want: Outcome{Phase: succeeded},
		},
		"a failure 30 s before the deletion of the pod counts": {
			pod: deletedAfter(30*time.Second, podIn(corev1.PodRunning, ends("main", 1), runs("sidecar"))),
			want: Outcome{Phase: failed, Failure: &Failure{
				ExitCode: ptr.To[int32](1), Reason: batchv1beta1.ReasonError, Time: ended,
			}},
		},
		"a success within the clock tolerance before the deletion of the pod is ignored": {
			pod:  deletedAfter(2*time.Second, podIn(corev1.PodRunning, ends("main", 0), runs("sidecar"))),
			want: Outcome{Phase: succeeded, Terminating: true},
		},
		"a pending pod that is being deleted is terminating": {
			pod:  deleting(podIn(corev1.PodPending)),
			want: Outcome{Phase: pending, Terminating: true},
		},
		"a pod in phase Succeeded has succeeded without container statuses": {
			pod:  podIn(corev1.PodSucceeded),
			want: Outcome{Phase: succeeded},
		},
		"a running pod whose condition Ready is False is not ready": {
			pod: conditioned(podIn(corev1.PodRunning, ready(runs("main"))),
				corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse}),
			want: Outcome{Phase: running},
		},
		"a running pod is ready although another condition is False": {
			pod: conditioned(podIn(corev1.PodRunning, ready(runs("main"))),
				corev1.PodCondition{Type: "example.com/Warm", Status: corev1.ConditionFalse},
				corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}),
			want: Outcome{Phase: running, Ready: true},
		},
		"a program that exits with 0 because its node shuts down has failed": {
			pod: because("Terminated", "the node shuts down", podIn(corev1.PodFailed, ends("main", 0))),
			want: Outcome{Phase: failed, Failure: &Failure{
				Reason: batchv1beta1.ReasonNodeShutdown, Message: "the node shuts down", Time: ended,
			}},
		},
		"a program that exits with 0 in a running pod with a reason has succeeded": {
			pod:  because("NodeAffinity", "", podIn(corev1.PodRunning, ends("main", 0), runs("sidecar"))),
			want: Outcome{Phase: succeeded},
		},
		"a program that exits with 0 after the kubelet began to end its pod has failed": {
			pod: disruptedAt(-time.Minute, "TerminationByKubelet", podIn(corev1.PodRunning, ends("main", 0))),
			want: Outcome{Phase: failed, Disruption: batchv1beta1.ReasonNodeShutdown, Failure: &Failure{
				Reason: batchv1beta1.ReasonNodeShutdown, Time: ended.Add(-time.Minute), Ignored: true,
			}},
		},
		"a program that exits with 0 before the kubelet ends its pod has succeeded": {
			pod:  disruptedAt(time.Minute, "TerminationByKubelet", podIn(corev1.PodRunning, ends("main", 0))),
			want: Outcome{Phase: succeeded, Disruption: batchv1beta1.ReasonNodeShutdown},
		},
		"a program that exits with 0 while its pod is preempted has succeeded": {
			pod:  disruptedAt(-time.Minute, "PreemptionByScheduler", podIn(corev1.PodRunning, ends("main", 0))),
			want: Outcome{Phase: succeeded, Disruption: batchv1beta1.ReasonPreempted},
		},
		"a failure has the time of the disruption if the program ends later": {
			pod: disruptedAt(-time.Minute, "PreemptionByScheduler", podIn(corev1.PodFailed, ends("main", 143))),
			want: Outcome{Phase: failed, Disruption: batchv1beta1.ReasonPreempted, Failure: &Failure{
				ExitCode: ptr.To[int32](143), Reason: batchv1beta1.ReasonPreempted, Time: ended.Add(-time.Minute), Ignored: true,
			}},
		},
		"a failure has the time when the program ended if the disruption begins later": {
			pod: disruptedAt(time.Minute, "PreemptionByScheduler", podIn(corev1.PodFailed, ends("main", 143))),
			want: Outcome{Phase: failed, Disruption: batchv1beta1.ReasonPreempted, Failure: &Failure{
				ExitCode: ptr.To[int32](143), Reason: batchv1beta1.ReasonPreempted, Time: ended, Ignored: true,
			}},
		},
		"a failed pod with a restarted main container has the reason of the pod": {
			pod:  because("Evicted", "", podIn(corev1.PodFailed, restarted(waits("main", "ContainerCreating"), 3, "Error"))),
			want: Outcome{Phase: failed, Failure: &Failure{ExitCode: ptr.To[int32](3), Reason: "Evicted", Time: ended}},
		},
		"a main container that was restarted and then failed has its last exit code": {
			pod: podIn(corev1.PodRunning, restarted(ends("main", 5), 3, "Error"), runs("sidecar")),
			want: Outcome{Phase: failed, Failure: &Failure{
				ExitCode: ptr.To[int32](5), Reason: batchv1beta1.ReasonError, Time: ended,
			}},
		},
		"a main container that was restarted has failed before the restart is counted": {
			pod: func() *corev1.Pod {
				status := restarted(runs("main"), 3, "Error")
				status.RestartCount = 0
				return podIn(corev1.PodRunning, status)
			}(),
			want: Outcome{Phase: failed, Failure: &Failure{
				ExitCode: ptr.To[int32](3), Reason: batchv1beta1.ReasonError, Message: restartedInPlace, Time: ended,
			}},
		},
		"a message of the kubelet replaces the message about the restart": {
			pod: because("", "the node is low on memory", podIn(corev1.PodRunning, restarted(runs("main"), 3, "Error"))),
			want: Outcome{Phase: failed, Failure: &Failure{
				ExitCode: ptr.To[int32](3), Reason: batchv1beta1.ReasonError, Message: "the node is low on memory", Time: ended,
			}},
		},
		"an init container can fail before the main container has a status": {
			pod: initialized(podIn(corev1.PodFailed), ends("fetch", 3)),
			want: Outcome{Phase: failed, Failure: &Failure{
				ExitCode: new(int32(3)), Init: true, Message: fetchFailed, Reason: "Error", Time: ended,
			}},
		},
		"a failure after a sidecar started counts, though the main container never started": {
			pod:  because("DeadlineExceeded", "", podIn(corev1.PodFailed, runs("sidecar"), notStarted)),
			want: Outcome{Phase: failed, Failure: &Failure{Reason: "DeadlineExceeded", Time: created}},
		},
		"a failure without an ended container has the time of the pod's last transition": {
			pod: conditioned(because("DeadlineExceeded", "", podIn(corev1.PodFailed, runs("sidecar"))),
				corev1.PodCondition{Type: corev1.PodReady, LastTransitionTime: metav1.NewTime(ended)},
				corev1.PodCondition{Type: corev1.PodScheduled, LastTransitionTime: metav1.NewTime(created.Add(time.Minute))}),
			want: Outcome{Phase: failed, Failure: &Failure{Reason: "DeadlineExceeded", Time: ended}},
		},
		"a pod that will be disrupted is running while its main container runs": {
			pod:  disruptedBy("PreemptionByScheduler", podIn(corev1.PodRunning, runs("main"))),
			want: Outcome{Phase: running, Disruption: batchv1beta1.ReasonPreempted},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Judge(tc.pod, "main", nil)); diff != "" {
				t.Errorf("unexpected outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDetail(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		failure Failure
		want    string
	}{
		"a failure without a message and an output has no details": {},
		"the output of the container is a detail": {
			failure: Failure{Output: "ValueError"}, want: "ValueError",
		},
		"the message of the kubelet is a detail": {
			failure: Failure{Message: "node is full"}, want: "node is full",
		},
		"the message of the kubelet precedes the output of the container": {
			failure: Failure{Message: "too much storage", Output: "step 7"}, want: "too much storage\nstep 7",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.failure.Detail(); got != tc.want {
				t.Errorf("the details are %q, want %q", got, tc.want)
			}
		})
	}
}

// Every disruption makes the failure ignored and determines the reason of the failure.
func TestDisruptionsAreIgnored(t *testing.T) {
	t.Parallel()
	for disruption, wantReason := range map[string]string{
		"PreemptionByScheduler":  batchv1beta1.ReasonPreempted,
		"DeletionByTaintManager": batchv1beta1.ReasonNodeLost,
		"EvictionByEvictionAPI":  batchv1beta1.ReasonEvicted,
		"DeletionByPodGC":        batchv1beta1.ReasonNodeLost,
		"TerminationByKubelet":   batchv1beta1.ReasonNodeShutdown,
		"SomethingNew":           batchv1beta1.ReasonDisrupted,
	} {
		t.Run(disruption, func(t *testing.T) {
			t.Parallel()
			want := Outcome{Phase: batchv1beta1.ReplicaPhaseFailed, Disruption: wantReason, Failure: &Failure{
				ExitCode: ptr.To[int32](143), Reason: wantReason, Time: ended, Ignored: true,
			}}
			got := Judge(disruptedBy(disruption, podIn(corev1.PodFailed, ends("main", 143))), "main", nil)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("unexpected outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADisruptionTargetThatIsFalseIsNoDisruption(t *testing.T) {
	t.Parallel()
	pod := disruptedBy("EvictionByEvictionAPI", podIn(corev1.PodFailed, ends("main", 1)))
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	if got := Judge(pod, "main", nil); got.Disruption != "" || got.Failure.Ignored {
		t.Errorf("the failure counts as a disruption: %+v", got)
	}
}

func TestLastLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcde\n", 300) + "end"
	for name, tc := range map[string]struct{ output, want string }{
		"a short output is kept":                          {output: "a\nb\n", want: "a\nb"},
		"a long output is cut at the beginning of a line": {output: long, want: long[len(long)-255*16-3:]},
		"an output of the maximum size is kept": {
			output: "a\n" + long[len(long)-MaxOutput+2:], want: "a\n" + long[len(long)-MaxOutput+2:],
		},
		"the beginning of a long line is cut off": {
			output: strings.Repeat("x", 5000), want: strings.Repeat("x", MaxOutput),
		},
		"a character is not split": {
			output: strings.Repeat("é", 3000) + "!", want: strings.Repeat("é", 2047) + "!",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := lastLines(strings.TrimSpace(tc.output), MaxOutput)
			if got != tc.want || !utf8.ValidString(got) {
				t.Errorf("the output has %d bytes, want %d: %q", len(got), len(tc.want), got)
			}
		})
	}
}
