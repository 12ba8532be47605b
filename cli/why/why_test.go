package why

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// runs is the status of a job that runs.
const runs = `phase: Running, reason: ReplicasRunning, ready: 2/2, aggregate: {running: 2}, observedGeneration: 1, startTime: "2026-11-26T13:51:00Z", conditions: [{type: Running, status: "True", reason: ReplicasRunning, message: "", lastTransitionTime: "2026-11-26T13:55:00Z"}]`

// stalls is the status of a job that runs and is stalled.
var stalls = `phase: Running, reason: ReplicasRunning, aggregate: {running: 2}, ` +
	`progress: {summary: 42%, replica: digits-worker-0}, conditions: [` +
	conditionOf("Running", "True", "ReplicasRunning", "") + `,` +
	conditionOf("Stalled", "True", "NoProgress", "no other step was reported for an hour") + `]`

// ready is the status of a pod that is ready.
const ready = `{phase: Running, conditions: [{type: Ready, status: "True"}]}`

// TestExplain compares whole texts, as a user sees them.
func TestExplain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec, status string
		change       func(t *testing.T, facts *Facts)
		want         string
	}{
		"a stalled job names the rank that reports, and no other if all replicas look alike": {
			status: stalls,
			change: func(t *testing.T, facts *Facts) {
				t.Helper()
				facts.Pods = []corev1.Pod{pod(t, "digits-worker-0", ready), pod(t, "digits-worker-1", ready)}
			},
			want: `
ptjob/digits runs, but its training stalled 5m ago. No other step was reported
for an hour. Replica digits-worker-0 (rank 0) reports the progress, and often
waits for another one that hangs. The status does not show which replica hangs.
If an evaluation or a checkpoint takes this long, the deadline is too short:
raise it in runPolicy.

Next:
  # Compare the last output of all replicas: the one that hangs often prints something else, or nothing
  kubectl train logs ptjob/digits --all --tail=5
  # List the pods of the job, with their nodes
  kubectl get pods -o wide -l batch.tensorstack.dev/job-name=digits

Read more: kubectl train docs troubleshooting stalled
`,
		},
		"a stalled job names the replicas that might hang, those with unhealthy devices first": {
			status: stalls + `, tasks: [{type: worker, replicas: [` +
				`{name: digits-worker-0, phase: Running}, {name: digits-worker-1, phase: Succeeded, node: gpu-1}, ` +
				`{name: digits-worker-2, phase: Unknown, node: gpu-2}, {name: digits-worker-3, phase: Running, node: gpu-3}]}]`,
			change: func(t *testing.T, facts *Facts) {
				t.Helper()
				facts.Job.Job.(*pytorchv1beta1.PyTorchTrainingJob).Spec.ReplicaSpecs[0].Replicas = new(int32(4))
				facts.Pods = []corev1.Pod{pod(t, "digits-worker-0", ready), pod(t, "digits-worker-3", `{phase: Running,
					conditions: [{type: Ready, status: "True"}], containerStatuses: [{name: main, allocatedResourcesStatus: [
					{name: nvidia.com/gpu, resources: [{resourceID: GPU-5f, health: Unhealthy}]}]}]}`)}
			},
			want: `
ptjob/digits runs, but its training stalled 5m ago. No other step was reported
for an hour. Replica digits-worker-0 (rank 0) reports the progress, and often
waits for another one that hangs. Replica digits-worker-3 (rank 3, on node
gpu-3) might hang, since its nvidia.com/gpu GPU-5f is unhealthy. Replica
digits-worker-2 (rank 2, on node gpu-2) is not ready, perhaps because its node
does not answer. Replica digits-worker-1 (rank 1, on node gpu-1) has ended, and
the others might wait for it. If an evaluation or a checkpoint takes this long,
the deadline is too short: raise it in runPolicy.

Next:
  # Read the output of the replica of rank 3
  kubectl train logs ptjob/digits --rank=3
  # Compare the last output of all replicas: the one that hangs often prints something else, or nothing
  kubectl train logs ptjob/digits --all --tail=5
  # List the pods of the job, with their nodes
  kubectl get pods -o wide -l batch.tensorstack.dev/job-name=digits

Read more: kubectl train docs troubleshooting stalled
`,
		},
		"a stalled job of one replica waits for no other": {
			status: stalls,
			change: func(t *testing.T, facts *Facts) {
				t.Helper()
				facts.Job.Job.(*pytorchv1beta1.PyTorchTrainingJob).Spec.ReplicaSpecs[0].Replicas = new(int32(1))
			},
			want: `
ptjob/digits runs, but its training stalled 5m ago. No other step was reported
for an hour. Replica digits-worker-0 (rank 0) reports the progress. If an
evaluation or a checkpoint takes this long, the deadline is too short: raise it
in runPolicy.

Next:
  # Read the output of the job
  kubectl train logs ptjob/digits
  # List the pods of the job, with their nodes
  kubectl get pods -o wide -l batch.tensorstack.dev/job-name=digits

Read more: kubectl train docs troubleshooting stalled
`,
		},
		"a new job waits for its controller": {
			change: func(_ *testing.T, facts *Facts) {
				facts.Job.SetCreationTimestamp(before(5 * time.Second))
			},
			want: `
ptjob/digits was created 5s ago and has no status. It is new, and the controller
writes its status within seconds.

Next:
  # Watch the job until it runs
  kubectl train watch ptjob/digits
  # See whether the controller runs
  kubectl get pods -A -l app.kubernetes.io/name=pytorch-controller

Read more: kubectl train docs troubleshooting pending
`,
		},
		"a job without a status for a minute has no controller": {
			change: func(_ *testing.T, facts *Facts) {
				facts.NotRead = []string{"the pods of the controller"}
			},
			want: `
ptjob/digits was created 10m ago and has no status. No controller handles the
job: either the pytorch-controller does not run, or it does not watch the
namespace vision. Ask an administrator to check its pod and its flag
--namespace. This leaves out the pods of the controller, which you may not read.

Next:
  # See whether the controller runs
  kubectl get pods -A -l app.kubernetes.io/name=pytorch-controller
  # Read the events of the job
  kubectl events --for ptjob/digits
  # For an administrator: read the errors of the controller
  kubectl logs -n t9k-pytorch deployment/pytorch-controller --tail=50

Read more: kubectl train docs operate/troubleshooting the-controllers
`,
		},
		"a controller that is not ready is named": {
			change: func(t *testing.T, facts *Facts) {
				controller := pod(t, "pytorch-controller-7d4f", `{phase: Running, conditions: [{type: Ready, status: "False"}]}`)
				controller.Namespace = "t9k-pytorch"
				facts.Controllers = []corev1.Pod{controller}
			},
			want: `
ptjob/digits was created 10m ago and has no status. No controller handles the
job. The pod pytorch-controller-7d4f of the pytorch-controller in namespace
t9k-pytorch is not ready. Ask an administrator to read its log.

Next:
  # For an administrator: read the errors of the controller
  kubectl logs -n t9k-pytorch pytorch-controller-7d4f --tail=50
  # See whether the controller runs
  kubectl get pods -A -l app.kubernetes.io/name=pytorch-controller

Read more: kubectl train docs operate/troubleshooting the-controllers
`,
		},
		"a controller that is ready, but does not handle the job, is named": {
			change: func(t *testing.T, facts *Facts) {
				controller := pod(t, "pytorch-controller-7d4f", `{phase: Running, conditions: [{type: Ready, status: "True"}]}`)
				controller.Namespace = "t9k-pytorch"
				facts.Controllers = []corev1.Pod{controller}
			},
			want: `
ptjob/digits was created 10m ago and has no status. The pytorch-controller runs
in namespace t9k-pytorch, but has not handled the job. It might be limited to
another namespace than vision by its flag --namespace, or it lacks permissions.
Ask an administrator to read its log.

Next:
  # For an administrator: read the errors of the controller
  kubectl logs -n t9k-pytorch pytorch-controller-7d4f --tail=50
  # See whether the controller runs
  kubectl get pods -A -l app.kubernetes.io/name=pytorch-controller

Read more: kubectl train docs operate/troubleshooting the-controllers
`,
		},
		"a private image needs a login": {
			status: waiting("ImagePull", ""),
			change: func(t *testing.T, facts *Facts) {
				facts.Pods = []corev1.Pod{waitingPod(t, "digits-worker-0", "ErrImagePull", `failed to pull and unpack image "ghcr.io/vision/training:2": failed to resolve reference "ghcr.io/vision/training:2": pull access denied, repository does not exist or may require authorization`)}
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. The image ghcr.io/vision/training:2 of
container main in pod digits-worker-0 cannot be pulled: pull access denied,
repository does not exist or may require authorization. Either there is no such
image, or the registry needs a login. Check the name. For a login, create a
secret and name it in imagePullSecrets of the template.

Next:
  # Read the whole message, and the events of the pod
  kubectl describe pod digits-worker-0
  # List the secrets for registries that the namespace has
  kubectl get secrets --field-selector type=kubernetes.io/dockerconfigjson
  # Pause the job, correct the image, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting pending
`,
		},
		"the answer of the registry comes from an event if the container waits for the next attempt": {
			status: waiting("ImagePull", ""),
			change: func(t *testing.T, facts *Facts) {
				facts.Pods = []corev1.Pod{waitingPod(t, "digits-worker-0", "ImagePullBackOff", `Back-off pulling image "ghcr.io/vision/training:2"`)}
				facts.Events = []corev1.Event{event("Pod", "digits-worker-0", "Failed", `Failed to pull image "ghcr.io/vision/training:2": rpc error: code = Unknown desc = dial tcp: lookup ghcr.io: no such host`)}
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. The image ghcr.io/vision/training:2 of
container main in pod digits-worker-0 cannot be pulled: dial tcp: lookup
ghcr.io: no such host. The node cannot reach the registry. Check the name of the
registry, and ask an administrator whether the nodes may reach it.

Next:
  # Read the whole message, and the events of the pod
  kubectl describe pod digits-worker-0
  # Pause the job, correct the image, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting pending
`,
		},
		"a program that is not in the image cannot start": {
			status: waiting("ContainerConfig", ""),
			change: func(t *testing.T, facts *Facts) {
				facts.Pods = []corev1.Pod{waitingPod(t, "digits-worker-0", "RunContainerError", `exec: "trian.py": executable file not found in $PATH`)}
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. Container main in pod digits-worker-0
cannot start: exec: "trian.py": executable file not found in $PATH. Check the
command of the container, and whether the image has it. The entrypoint of the
image does not run, so a PATH that only it sets has no effect.

Next:
  # Read the whole message, and the events of the pod
  kubectl describe pod digits-worker-0
  # Pause the job, correct the container, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting pending
`,
		},
		"a pod that cannot mount a volume is not merely starting": {
			status: waiting("Pending", "2 of 2 replicas are not running yet: digits-worker-0 is starting"),
			change: func(t *testing.T, facts *Facts) {
				facts.Pods = []corev1.Pod{waitingPod(t, "digits-worker-0", "ContainerCreating", ""), waitingPod(t,
					"digits-worker-1", "ContainerCreating", "")}
				facts.Events = []corev1.Event{event("Pod", "digits-worker-0", "FailedMount", `MountVolume.SetUp failed for volume "code" : configmap "digits" not found`)}
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. The pods of the job need the ConfigMap
digits, which does not exist in the namespace vision. Create it, and the job
continues automatically. Or correct its name in the template.

Next:
  # List the ConfigMaps of the namespace
  kubectl get configmaps
  # Read all conditions and events of the job
  kubectl describe ptjob/digits
  # Pause the job, correct the name of the ConfigMap, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting pending
`,
		},
		"a pod whose volumes are not ready is not merely starting": {
			status: waiting("Pending", "1 of 2 replicas is not running yet: digits-worker-0 is starting, but its volumes or "+
				"its network have not been ready since 13:51:00 UTC: see the events of the pod"),
			change: func(t *testing.T, facts *Facts) {
				facts.Pods = []corev1.Pod{waitingPod(t, "digits-worker-0", "ContainerCreating", "")}
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. Pod digits-worker-0 has a node, but its
volumes or its network have not been ready since 13:51:00 UTC. The kubelet tries
it again.

Next:
  # Read the whole message, and the events of the pod
  kubectl describe pod digits-worker-0

Read more: kubectl train docs troubleshooting pending
`,
		},
		"a pod that pulls its image is starting": {
			status: waiting("Pending", "2 of 2 replicas are not running yet: digits-worker-0 is starting"),
			change: func(t *testing.T, facts *Facts) {
				facts.Pods = []corev1.Pod{waitingPod(t, "digits-worker-0", "ContainerCreating", "")}
				facts.Events = []corev1.Event{event("Pod", "digits-worker-0", "Pulling", `Pulling image "ghcr.io/vision/training:2"`)}
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. Pod digits-worker-0 has a node, and
began to pull its image 2m ago. Large images take minutes. Wait.

Next:
  # Watch the job until it runs
  kubectl train watch ptjob/digits
  # Read the whole message, and the events of the pod
  kubectl describe pod digits-worker-0

Read more: kubectl train docs troubleshooting pending
`,
		},
		"a pod waits for the host names of its peers": {
			status: waiting("Pending", "1 of 2 replicas is not running yet: digits-worker-1 is starting"),
			change: func(t *testing.T, facts *Facts) {
				p := waitingPod(t, "digits-worker-1", "PodInitializing", "")
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
					Name:  "wait-for-peers",
					State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
				}}
				facts.Pods = []corev1.Pod{p}
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. Pod digits-worker-1 waits for its
peers: its init container wait-for-peers waits until their host names resolve,
for at most 10 minutes. The peers need nodes and IP addresses first. If they
have them, its log shows which name does not resolve.

Next:
  # List the pods of the job, with their nodes
  kubectl get pods -o wide -l batch.tensorstack.dev/job-name=digits
  # See which host name does not resolve
  kubectl logs digits-worker-1 -c wait-for-peers

Read more: kubectl train docs troubleshooting pending
`,
		},
		"a job that fits on no node can be elastic": {
			spec: `elastic: {enabled: true, minReplicas: 1, maxReplicas: 4, expectedReplicas: 3}, torchrunConfig: {enabled: true},`,
			status: waiting("Unschedulable", "3 of 3 replicas are not running yet: digits-worker-0 cannot be scheduled: 0/4 "+
				"nodes are available: 4 Insufficient cpu. preemption: 0/4 nodes are available: 4 No preemption victims found "+
				"for incoming pod."),
			want: `
ptjob/digits waits: 0 of 2 replicas run. No node can take pod digits-worker-0.
All 4 nodes have too little cpu left. The pod requests memory=16Gi and
nvidia.com/gpu=4. Request less, or wait until other jobs end, or ask for more
nodes.

Next:
  # See what the nodes have, and how much of it is taken
  kubectl describe nodes
  # See which jobs hold resources
  kubectl train list -A -o wide
  # Or let the job run with fewer replicas
  kubectl train scale ptjob/digits 1

Read more: kubectl train docs troubleshooting pending
`,
		},
		"a job that requests more than any node has is not told to wait": {
			status: waiting("Unschedulable", "2 of 2 replicas are not running yet: digits-worker-0 cannot be scheduled: 0/2 "+
				"nodes are available: 2 Insufficient nvidia.com/gpu."),
			change: func(t *testing.T, facts *Facts) {
				facts.Nodes = []corev1.Node{
					*read(t, `{status: {allocatable: {memory: 64Gi, nvidia.com/gpu: 2}}}`, &corev1.Node{}),
					*read(t, `{status: {allocatable: {memory: 32Gi}}}`, &corev1.Node{}),
				}
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. No node can take pod digits-worker-0.
All 2 nodes have too little nvidia.com/gpu left. The pod requests memory=16Gi
and nvidia.com/gpu=4. No node has so much nvidia.com/gpu in total: the largest
has 2. It does not help to wait, unless the cluster gets larger nodes. Request
less, or ask for such nodes.

Next:
  # See what the nodes have, and how much of it is taken
  kubectl describe nodes
  # Pause the job, request less, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting pending
`,
		},
		"a job that requests a resource that no node has is not told to wait": {
			status: waiting("Unschedulable", "2 of 2 replicas are not running yet: digits-worker-0 cannot be scheduled: 0/1 "+
				"nodes are available: 1 Insufficient nvidia.com/gpu."),
			change: func(t *testing.T, facts *Facts) {
				facts.Nodes = []corev1.Node{*read(t, `{status: {allocatable: {memory: 64Gi}}}`, &corev1.Node{})}
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. No node can take pod digits-worker-0.
The only node has too little nvidia.com/gpu left. The pod requests memory=16Gi
and nvidia.com/gpu=4. No node has nvidia.com/gpu at all. It does not help to
wait, unless the cluster gets larger nodes. Request less, or ask for such nodes.

Next:
  # See what the nodes have, and how much of it is taken
  kubectl describe nodes
  # Pause the job, request less, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting pending
`,
		},
		"a job that waits for resources that other jobs hold is told to wait": {
			status: waiting("Unschedulable", "2 of 2 replicas are not running yet: digits-worker-0 cannot be scheduled: 0/1 "+
				"nodes are available: 1 Insufficient nvidia.com/gpu."),
			change: func(t *testing.T, facts *Facts) {
				facts.Nodes = []corev1.Node{*read(t, `{status: {allocatable: {memory: 64Gi, nvidia.com/gpu: 8}}}`, &corev1.Node{})}
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. No node can take pod digits-worker-0.
The only node has too little nvidia.com/gpu left. The pod requests memory=16Gi
and nvidia.com/gpu=4. Request less, or wait until other jobs end, or ask for
more nodes.

Next:
  # See what the nodes have, and how much of it is taken
  kubectl describe nodes
  # See which jobs hold resources
  kubectl train list -A -o wide
  # Pause the job, request less, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting pending
`,
		},
		"an elastic job trains while some replicas wait": {
			spec:   `elastic: {enabled: true, minReplicas: 1, maxReplicas: 4, expectedReplicas: 2}, torchrunConfig: {enabled: true},`,
			status: `phase: Running, reason: PartiallyRunning, aggregate: {running: 1, pending: 1}, conditions: [` + conditionOf("Running", "True", "PartiallyRunning", "1 of 2 replicas run, and elastic.minReplicas is 1: digits-worker-1 cannot be scheduled: 0/4 nodes are available: 4 Insufficient cpu.") + `]`,
			change: func(t *testing.T, facts *Facts) {
				facts.Pods = []corev1.Pod{pod(t, "digits-worker-1", `{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/4 nodes are available: 4 Insufficient cpu."}]}`)}
			},
			want: `
ptjob/digits has run for 5m. The job is elastic, and trains with 1 of 2
replicas. No node can take pod digits-worker-1. All 4 nodes have too little cpu
left. The pod requests memory=16Gi and nvidia.com/gpu=4. Request less, or wait
until other jobs end, or ask for more nodes.

Next:
  # Follow the output of the job
  kubectl train logs ptjob/digits -f
  # See what the nodes have, and how much of it is taken
  kubectl describe nodes
  # See which jobs hold resources
  kubectl train list -A -o wide
  # Or let the job run with fewer replicas
  kubectl train scale ptjob/digits 1

Read more: kubectl train docs troubleshooting pending
`,
		},
		"a job that is created again waits for the pods of the deleted job": {
			spec:   `scheduler: {t9kScheduler: {queue: lab}},`,
			status: waiting("EarlierGroup", "some pods of an earlier PodGroup digits have not ended"),
			want: `
ptjob/digits waits: 0 of 2 replicas run. Pods of an earlier job with this name,
or from before a pause, have not ended. They end within their grace period, and
the job continues automatically. If a pod is not Terminating, its job was
deleted without it: delete the pod, too.

Next:
  # List the pods of the job, with their nodes
  kubectl get pods -o wide -l batch.tensorstack.dev/job-name=digits

Read more: kubectl train docs troubleshooting a-job-in-a-queue
`,
		},
		"a job in a queue without quota shows who holds it and who is before it": {
			spec:   `scheduler: {t9kScheduler: {queue: lab}},`,
			status: waiting("QuotaExceeded", `0 of 2 pods are on nodes: not enough nvidia.com/gpu left in the quota of Queue "lab"`),
			change: func(t *testing.T, facts *Facts) {
				queue := read(t, `{metadata: {name: lab}, spec: {quota: {requests: {nvidia.com/gpu: 16}}}, status: {allocated: {nvidia.com/gpu: 12}}}`, &schedulerv1beta1.Queue{})
				facts.Queue, facts.HasAllRivals = queue, true
				groups := read(t, `{items: [
		{metadata: {name: digits, namespace: vision, uid: a, creationTimestamp: "2026-11-26T13:50:00Z"}, spec: {queue: lab}},
		{metadata: {name: big, namespace: speech, uid: b, creationTimestamp: "2026-11-26T12:00:00Z"}, spec: {queue: lab}, status: {allocated: {nvidia.com/gpu: 8}, conditions: [{type: GroupScheduled, status: "True"}]}},
		{metadata: {name: small, namespace: speech, uid: c, creationTimestamp: "2026-11-26T12:30:00Z"}, spec: {queue: lab}, status: {allocated: {nvidia.com/gpu: 4}, conditions: [{type: GroupScheduled, status: "True"}]}},
		{metadata: {name: older, namespace: speech, uid: d, creationTimestamp: "2026-11-26T13:00:00Z"}, spec: {queue: lab}},
		{metadata: {name: urgent, namespace: speech, uid: e, creationTimestamp: "2026-11-26T13:59:00Z"}, spec: {queue: lab, priority: 90}},
		{metadata: {name: later, namespace: speech, uid: f, creationTimestamp: "2026-11-26T13:59:00Z"}, spec: {queue: lab}},
	]}`, &schedulerv1beta1.PodGroupList{})
				facts.PodGroup, facts.Rivals = &groups.Items[0], groups.Items
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. The quota of Queue lab has too little
nvidia.com/gpu left: the job needs 8 at the same time. Of the quota of 16, 12
are in use, 8 by speech/big and 4 by speech/small. 2 jobs wait before it. Wait
until other jobs of the queue end, request less, or ask an administrator for a
larger quota.

Next:
  # Read the quota of the queue, and how much of it is in use
  kubectl describe queues.scheduler.tensorstack.dev lab
  # See which groups are in the queue, and which of them run
  kubectl get podgroups.scheduler.tensorstack.dev -A
  # Pause the job, request less, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting a-job-in-a-queue
`,
		},
		"a user who may not read queues still gets the cause": {
			spec:   `scheduler: {t9kScheduler: {queue: lab}},`,
			status: waiting("QuotaExceeded", `0 of 2 pods are on nodes: not enough nvidia.com/gpu left in the quota of Queue "lab"`),
			change: func(t *testing.T, facts *Facts) {
				facts.NotRead = []string{"its Queue"}
				facts.PodGroup = read(t, `{metadata: {name: digits, namespace: vision, uid: a}, spec: {queue: lab}}`, &schedulerv1beta1.PodGroup{})
				facts.Rivals = []schedulerv1beta1.PodGroup{*facts.PodGroup}
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. The quota of Queue lab has too little
nvidia.com/gpu left: the job needs 8 at the same time. No job of this namespace
waits before it. Wait until other jobs of the queue end, request less, or ask an
administrator for a larger quota. This leaves out its Queue, which you may not
read.

Next:
  # Read the quota of the queue, and how much of it is in use
  kubectl describe queues.scheduler.tensorstack.dev lab
  # See which groups are in the queue, and which of them run
  kubectl get podgroups.scheduler.tensorstack.dev -A
  # Pause the job, request less, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting a-job-in-a-queue
`,
		},
		"a job that needs more than the whole quota of its queue can never run": {
			spec:   "scheduler: {t9kScheduler: {queue: lab}}, progress: {enabled: true},",
			status: waiting("QuotaExceeded", `0 of 2 pods are on nodes: not enough cpu left in the quota of Queue "lab"`),
			change: func(t *testing.T, facts *Facts) {
				t.Helper()
				queue := read(t, `{metadata: {name: lab}, spec: {quota: {requests: {cpu: 2}}}}`, &schedulerv1beta1.Queue{})
				facts.Queue = queue
				container := &facts.Job.Job.(*pytorchv1beta1.PyTorchTrainingJob).Spec.ReplicaSpecs[0].Template.Spec.Containers[0]
				container.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. The job needs 2100m cpu at the same
time, and the whole quota of Queue lab has 2. So the job can never run. Request
less, or ask an administrator for a larger quota.

Next:
  # Read the quota of the queue, and how much of it is in use
  kubectl describe queues.scheduler.tensorstack.dev lab
  # Pause the job, request less, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting a-job-in-a-queue
`,
		},
		"Kueue waits for quota": {
			status: waiting("Queued", "2 of 2 replicas are not running yet: workload digits waits for Kueue in queue team"),
			change: func(t *testing.T, facts *Facts) {
				inKueue(t, facts, `conditions: [{type: QuotaReserved, status: "False", reason: Pending, message: "couldn't assign flavors to pod set worker: insufficient unused quota for nvidia.com/gpu in flavor a100, 2 more needed"}]`)
				facts.LocalQueue = &KueueQueue{Kind: "LocalQueue", Name: "team", Pending: 3}
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. The job waits in LocalQueue team of
Kueue, and has no pods before it is admitted. Kueue reports: couldn't assign
flavors to pod set worker: insufficient unused quota for nvidia.com/gpu in
flavor a100, 2 more needed. 3 jobs wait in LocalQueue team. Wait until other
jobs end, request less, or ask an administrator for a larger quota.

Next:
  # Read what Kueue reports about the job
  kubectl describe workloads.kueue.x-k8s.io digits
  # See the queues of the namespace, and how many jobs wait in them
  kubectl get localqueues.kueue.x-k8s.io

Read more: kubectl train docs kueue what-happens-to-a-job
`,
		},
		"a job whose code is not uploaded cannot be resumed": {
			status: `phase: Paused, reason: Paused, conditions: [` + conditionOf("Paused", "True", "Paused", "") + `]`,
			change: func(_ *testing.T, facts *Facts) {
				facts.Job.SetAnnotations(map[string]string{jobs.AnnotationPreparing: "1"})
			},
			want: `
ptjob/digits was created 10m ago and has no code yet. The command kubectl train
run starts it when it has uploaded the code. If that command was killed, delete
the job, and run the command again.

Next:
  # See whether the code is being uploaded
  kubectl get pod digits-upload
  # Delete the job with what was uploaded
  kubectl train delete ptjob/digits

Read more: kubectl train docs kubectl-train-details if-the-command-is-interrupted-before-the-job-runs
`,
		},
		"a job that ran before waits since it was resumed": {
			status: strings.Replace(waiting("Pending", "digits-worker-0 is starting"), "phase: Pending",
				"phase: Resuming, runningTime: \"2026-11-26T13:51:00Z\"", 1),
			want: `
ptjob/digits was resumed and waits: 0 of 2 replicas run. A pod waits:
digits-worker-0 is starting. Usually, it is enough to wait: pulling a large
image takes minutes.

Next:
  # Watch the job until it runs
  kubectl train watch ptjob/digits
  # Read the whole message, and the events of the pod
  kubectl describe pod digits-worker-0

Read more: kubectl train docs troubleshooting pending
`,
		},
		"a job that nobody has paused after it ran only waits": {
			status: strings.Replace(waiting("Pending", "digits-worker-0 is starting"), "phase: Pending", "phase: Resuming", 1),
			want: `
ptjob/digits waits: 0 of 2 replicas run. A pod waits: digits-worker-0 is
starting. Usually, it is enough to wait: pulling a large image takes minutes.

Next:
  # Watch the job until it runs
  kubectl train watch ptjob/digits
  # Read the whole message, and the events of the pod
  kubectl describe pod digits-worker-0

Read more: kubectl train docs troubleshooting pending
`,
		},
		"the only replica of a job runs": {
			status: strings.NewReplacer("2/2", "1/1", "running: 2", "running: 1").Replace(runs),
			change: func(_ *testing.T, facts *Facts) {
				facts.Job.Job.(*pytorchv1beta1.PyTorchTrainingJob).Spec.ReplicaSpecs[0].Replicas = new(int32(1))
			},
			want: `
ptjob/digits has run for 5m. Its only replica runs.

Next:
  # Follow the output of the job
  kubectl train logs ptjob/digits -f
  # Watch the job
  kubectl train watch ptjob/digits

Read more: kubectl train docs troubleshooting running
`,
		},
		"the processes of a job have restarted in place": {
			status: runs + `, restartsInPlace: {count: 3, attemptCount: 1, podUID: a, last: [{replica: digits-worker-1, rank: 3, signal: SIGKILL, time: "2026-11-26T13:58:00Z"}]}`,
			want: `
ptjob/digits has run for 5m. All 2 replicas run. Its processes have restarted in
place 3 times, the last time 2m ago because rank 3 on digits-worker-1 was
terminated by SIGKILL.

Next:
  # Follow the output of the job
  kubectl train logs ptjob/digits -f
  # Watch the job
  kubectl train watch ptjob/digits

Read more: kubectl train docs troubleshooting running
`,
		},
		"Kueue does not know the queue": {
			status: waiting("Queued", "2 of 2 replicas are not running yet: workload digits waits for Kueue in queue team"),
			change: func(t *testing.T, facts *Facts) {
				inKueue(t, facts, `conditions: [{type: QuotaReserved, status: "False", reason: Misconfigured, message: "LocalQueue team doesn't exist"}]`)
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. The job waits in LocalQueue team of
Kueue, and has no pods before it is admitted. Kueue reports: LocalQueue team
doesn't exist. Ask an administrator about the queue. To use another one, pause
the job, change its label kueue.x-k8s.io/queue-name, and resume it.

Next:
  # Read what Kueue reports about the job
  kubectl describe workloads.kueue.x-k8s.io digits
  # See the queues of the namespace, and how many jobs wait in them
  kubectl get localqueues.kueue.x-k8s.io

Read more: kubectl train docs kueue what-happens-to-a-job
`,
		},
		"Kueue has evicted the job, and the queue is stopped": {
			status: waiting("Queued", "2 of 2 replicas are not running yet: workload digits was evicted"),
			change: func(t *testing.T, facts *Facts) {
				inKueue(t, facts, `conditions: [{type: QuotaReserved, status: "False", reason: Pending, message: "ClusterQueue research is inactive"}, {type: Evicted, status: "True", reason: Preempted, message: "Preempted to accommodate a workload", lastTransitionTime: "2026-11-26T13:57:00Z"}]`)
				facts.LocalQueue = &KueueQueue{Kind: "LocalQueue", Name: "team", Pending: 1}
				facts.ClusterQueue = &KueueQueue{Kind: "ClusterQueue", Name: "research", Inactive: "Can't admit new workloads: " +
					"is stopped"}
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. The job waits in LocalQueue team of
Kueue, and has no pods before it is admitted. Kueue stopped it 3m ago
(Preempted): Preempted to accommodate a workload. Kueue reports: ClusterQueue
research is inactive. ClusterQueue research admits nothing: Can't admit new
workloads: is stopped. Ask an administrator about the queue. To use another one,
pause the job, change its label kueue.x-k8s.io/queue-name, and resume it.

Next:
  # Read what Kueue reports about the job
  kubectl describe workloads.kueue.x-k8s.io digits
  # See the queues of the namespace, and how many jobs wait in them
  kubectl get localqueues.kueue.x-k8s.io

Read more: kubectl train docs kueue what-happens-to-a-job
`,
		},
		"the Workload of the job is not active": {
			status: waiting("Queued", "2 of 2 replicas are not running yet: workload digits is not active: set its "+
				"spec.active to true"),
			change: func(t *testing.T, facts *Facts) {
				inKueue(t, facts, `conditions: [{type: Evicted, status: "True", reason: DeactivatedDueToRequeuingLimitExceeded, message: "The workload is deactivated because it was requeued too often"}]`)
				facts.Workload.Spec.Active = new(false)
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. The job waits in LocalQueue team of
Kueue, and has no pods before it is admitted. Its Workload is not active
(spec.active is false): The workload is deactivated because it was requeued too
often. Fix the cause, and activate the Workload.

Next:
  # Let Kueue admit the job again
  kubectl patch workloads.kueue.x-k8s.io digits --type=merge -p '{"spec": {"active": true}}'
  # Read what Kueue reports about the job
  kubectl describe workloads.kueue.x-k8s.io digits
  # See the queues of the namespace, and how many jobs wait in them
  kubectl get localqueues.kueue.x-k8s.io

Read more: kubectl train docs kueue what-happens-to-a-job
`,
		},
		"an admission check of Kueue is not ready": {
			status: waiting("Queued", "2 of 2 replicas are not running yet: workload digits waits for Kueue in queue team"),
			change: func(t *testing.T, facts *Facts) {
				inKueue(t, facts, `conditions: [{type: QuotaReserved, status: "True", reason: QuotaReserved}], admissionChecks: [{name: budget, state: Pending, message: "waits for the approval of the manager"}]`)
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. The job waits in LocalQueue team of
Kueue, and has no pods before it is admitted. Its quota is reserved, and it
waits for the admission checks budget (Pending): waits for the approval of the
manager. Ask an administrator about the checks if this does not change.

Next:
  # Read what Kueue reports about the job
  kubectl describe workloads.kueue.x-k8s.io digits
  # See the queues of the namespace, and how many jobs wait in them
  kubectl get localqueues.kueue.x-k8s.io

Read more: kubectl train docs kueue what-happens-to-a-job
`,
		},
		"MultiKueue runs the job in another cluster": {
			spec:   `managedBy: kueue.x-k8s.io/multikueue,`,
			status: runs,
			change: func(t *testing.T, facts *Facts) {
				inKueue(t, facts, `admissionChecks: [{name: multikueue, state: Ready, message: 'The workload got reservation on "worker1"'}]`)
			},
			want: `
ptjob/digits has run for 5m. All 2 replicas run. MultiKueue runs it in another
cluster, where its pods and logs are. It reports: The workload got reservation
on "worker1".

Next:
  # Follow the output of the job
  kubectl train logs ptjob/digits -f
  # Watch the job
  kubectl train watch ptjob/digits
  # Read what Kueue reports about the job
  kubectl describe workloads.kueue.x-k8s.io digits

Read more: kubectl train docs troubleshooting running
Read more: kubectl train docs kueue jobs-in-other-clusters
`,
		},
		"a replica that was killed without a limit was killed from outside": {
			spec:   `runPolicy: {backoffLimit: 0},`,
			status: failed("BackoffLimitExceeded", `{replica: digits-worker-1, rank: 1, node: node-3, exitCode: 137, reason: Error, counted: true, time: "2026-11-26T13:57:00Z"}`),
			want: `
ptjob/digits failed 5m ago, after 7m. Replica digits-worker-1 (rank 1, on node
node-3) ended with exit code 137 (SIGKILL): it was killed from outside, for
example at the end of a grace period or because the node had no memory left. No
restart is left, because runPolicy.backoffLimit is 0. Fix the cause, delete the
job, and create it again.

Next:
  # Read the whole output of the replica that failed
  kubectl train logs ptjob/digits --failed
  # Delete the job, to create it again
  kubectl train delete ptjob/digits

Read more: kubectl train docs troubleshooting failed
`,
		},
		"an init container that failed is named": {
			spec:   `runPolicy: {backoffLimit: 0},`,
			status: failed("BackoffLimitExceeded", `{replica: digits-worker-1, node: node-3, exitCode: 42, reason: Error, counted: true, time: "2026-11-26T13:57:00Z", message: "the init container fetch failed\nno such bucket"}`),
			want: `
ptjob/digits failed 5m ago, after 7m. Replica digits-worker-1 (on node node-3)
failed before its program began: its init container fetch ended with exit code
42. No restart is left, because runPolicy.backoffLimit is 0. Fix the cause,
delete the job, and create it again.

Its last output:
  | the init container fetch failed
  | no such bucket

Next:
  # Read the whole output of the replica that failed
  kubectl train logs ptjob/digits --failed
  # Delete the job, to create it again
  kubectl train delete ptjob/digits

Read more: kubectl train docs troubleshooting failed
`,
		},
		"a data loader with too little shared memory, though its last lines do not tell": {
			spec:   `runPolicy: {backoffLimit: 0},`,
			status: failed("BackoffLimitExceeded", `{replica: digits-worker-1, rank: 1, exitCode: 1, reason: Error, counted: true, time: "2026-11-26T13:57:00Z", message: "RuntimeError: DataLoader worker (pid 8) is killed by signal: Bus error.\n\nTraceback:\n1\n2\n3\n4\n5\n6\n7\n8\nRuntimeError: DataLoader worker (pid(s) 8) exited unexpectedly"}`),
			want: `
ptjob/digits failed 5m ago, after 7m. Replica digits-worker-1 (rank 1) ended
with exit code 1, an error of the program. Without a volume at /dev/shm, a
container has only 64 MiB of shared memory. In the template, mount an emptyDir
with medium Memory there. The shared memory counts towards the memory limit of
the container. Or use fewer workers of the data loader. No restart is left,
because runPolicy.backoffLimit is 0. Fix the cause, delete the job, and create
it again.

Its last output:
  | Traceback:
  | 1
  | 2
  | 3
  | 4
  | 5
  | 6
  | 7
  | 8
  | RuntimeError: DataLoader worker (pid(s) 8) exited unexpectedly

Next:
  # Read the whole output of the replica that failed
  kubectl train logs ptjob/digits --failed
  # Delete the job, to create it again
  kubectl train delete ptjob/digits

Read more: kubectl train docs troubleshooting failed
`,
		},
		"a bus error of a rank whose shared memory has a volume": {
			spec:   `runPolicy: {backoffLimit: 0}, torchrunConfig: {enabled: true},`,
			status: failed("BackoffLimitExceeded", `{replica: digits-worker-1, rank: 5, rankSignal: SIGBUS, exitCode: 1, reason: Error, counted: true, time: "2026-11-26T13:57:00Z"}`),
			change: func(t *testing.T, facts *Facts) {
				t.Helper()
				p := pod(t, "digits-worker-1", `{phase: Failed}`)
				p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "shm", MountPath: "/dev/shm"}}
				facts.Pods = []corev1.Pod{p}
			},
			want: `
ptjob/digits failed 5m ago, after 7m. Replica digits-worker-1 (rank 5) ended
because its process was ended by SIGBUS: often the shared memory /dev/shm was
too small for the workers of a data loader. Raise the sizeLimit of the volume at
/dev/shm, if it has one, or the memory limit. The shared memory counts towards
the memory limit of the container. Or use fewer workers of the data loader. No
restart is left, because runPolicy.backoffLimit is 0. Fix the cause, delete the
job, and create it again.

Next:
  # Read the whole output of the replica that failed
  kubectl train logs ptjob/digits --failed
  # Delete the job, to create it again
  kubectl train delete ptjob/digits

Read more: kubectl train docs troubleshooting failed
`,
		},
		"a rank of a launcher ended by a signal": {
			spec:   `runPolicy: {backoffLimit: 0}, torchrunConfig: {enabled: true},`,
			status: failed("BackoffLimitExceeded", `{replica: digits-worker-1, rank: 5, rankSignal: SIGSEGV, exitCode: 1, reason: Error, counted: true, time: "2026-11-26T13:57:00Z"}`),
			want: `
ptjob/digits failed 5m ago, after 7m. Replica digits-worker-1 (rank 5) ended
because its process was ended by SIGSEGV: a segmentation fault, which is an
error in native code. No restart is left, because runPolicy.backoffLimit is 0.
Fix the cause, delete the job, and create it again.

Next:
  # Read the whole output of the replica that failed
  kubectl train logs ptjob/digits --failed
  # Delete the job, to create it again
  kubectl train delete ptjob/digits

Read more: kubectl train docs troubleshooting failed
`,
		},
		"a failure that the restart policy does not restart": {
			status: failed("PermanentFailure", `{replica: digits-worker-0, rank: 0, exitCode: 2, reason: Error, counted: true, time: "2026-11-26T13:57:00Z", message: "python3: can't open file '/code/trian.py': [Errno 2] No such file or directory"}`),
			change: func(_ *testing.T, facts *Facts) {
				facts.Job.Job.(*pytorchv1beta1.PyTorchTrainingJob).Spec.ReplicaSpecs[0].RestartPolicy = "ExitCode"
			},
			want: `
ptjob/digits failed 5m ago, after 7m. Replica digits-worker-0 (rank 0) ended
with exit code 2, which programs use for a wrong command line, such as an
unknown option or a script that does not exist. Its restart policy ExitCode
restarts only after the exit codes 130, 137, 138 and 143. Fix the cause, delete
the job, and create it again.

Its last output:
  | python3: can't open file '/code/trian.py': [Errno 2] No such file or directory

Next:
  # Read the whole output of the replica that failed
  kubectl train logs ptjob/digits --failed
  # Delete the job, to create it again
  kubectl train delete ptjob/digits

Read more: kubectl train docs troubleshooting failed
`,
		},
		"a finished job that ran out of memory must be created again": {
			status: failed("BackoffLimitExceeded", `{replica: digits-worker-0, rank: 0, exitCode: 137, reason: OOMKilled, counted: true, time: "2026-11-26T13:57:00Z"}`),
			want: `
ptjob/digits failed 5m ago, after 7m. Replica digits-worker-0 (rank 0) was
killed because it used more memory than its limit of 16Gi. Use less memory, for
example with a smaller batch or fewer workers of the data loader, or raise the
limit. No restart is left, because runPolicy.backoffLimit is 3. Fix the cause,
delete the job, and create it again.

Next:
  # Read the whole output of the replica that failed
  kubectl train logs ptjob/digits --failed
  # Delete the job. Then raise resources.limits.memory, and create it again
  kubectl train delete ptjob/digits

Read more: kubectl train docs troubleshooting failed
`,
		},
		"a replica was evicted because it wrote more to its local disk than its limit": {
			status: failed("BackoffLimitExceeded", `{replica: digits-worker-0, rank: 0, exitCode: 137, reason: Evicted, counted: true, time: "2026-11-26T13:57:00Z", message: "Pod ephemeral local storage usage exceeds the total limit of containers 10Gi."}`),
			want: `
ptjob/digits failed 5m ago, after 7m. Replica digits-worker-0 (rank 0) was
evicted: Pod ephemeral local storage usage exceeds the total limit of containers
10Gi. Write less to the local disk, mount a claim for checkpoints and data, or
raise the limit of ephemeral storage or the sizeLimit of the volume. No restart
is left, because runPolicy.backoffLimit is 3. Fix the cause, delete the job, and
create it again.

Its last output:
  | Pod ephemeral local storage usage exceeds the total limit of containers 10Gi.

Next:
  # Read the events of the pod
  kubectl events --for pod/digits-worker-0
  # Read the whole output of the replica that failed
  kubectl train logs ptjob/digits --failed
  # Delete the job, to create it again
  kubectl train delete ptjob/digits

Read more: kubectl train docs troubleshooting failed
`,
		},
		"a job of one replica restarts": {
			status: strings.Replace(
				waiting("Restarting", "the replica is not running yet: digits-worker-0 is being replaced"), "conditions: [",
				`failures: [{replica: digits-worker-0, reason: Deleted, counted: false, time: "2026-11-26T13:57:00Z"}], conditions: [`+
					conditionOf("ReplicaFailure", "True", "Deleted", "the pod of replica digits-worker-0 was deleted")+", ", 1),
			want: `
ptjob/digits restarts after a failure: 0 of 2 replicas run. The pod of replica
digits-worker-0 was deleted by somebody or by another controller. Such a restart
does not count towards runPolicy.backoffLimit. Replica digits-worker-0 is being
replaced. The job continues automatically. The delay grows with each restart.

Next:
  # Read the events of the pod
  kubectl events --for pod/digits-worker-0
  # List the pods of the job, with their nodes
  kubectl get pods -o wide -l batch.tensorstack.dev/job-name=digits
  # Read the whole output of the replica that failed
  kubectl train logs ptjob/digits --failed
  # Watch the job until it runs
  kubectl train watch ptjob/digits

Read more: kubectl train docs troubleshooting failed
Read more: kubectl train docs troubleshooting pending
`,
		},
		"a replica was evicted because its node is short of memory": {
			status: strings.Replace(
				waiting("Restarting", "2 of 2 replicas are not running yet: digits-worker-0 is being replaced"), "conditions: [",
				`failures: [{replica: digits-worker-0, rank: 0, reason: Evicted, counted: false, time: "2026-11-26T13:57:00Z", message: "The node was low on resource: memory."}], conditions: [`+
					conditionOf("ReplicaFailure", "True", "Evicted", "replica digits-worker-0 was evicted")+", ", 1),
			want: `
ptjob/digits restarts after a failure: 0 of 2 replicas run. Replica
digits-worker-0 (rank 0) was evicted: The node was low on resource: memory. Its
node is being drained, has a taint with the effect NoExecute, or is short of a
resource. Replica digits-worker-0 is being replaced. The job continues
automatically. The delay grows with each restart.

Next:
  # Read the events of the pod
  kubectl events --for pod/digits-worker-0
  # Read the whole output of the replica that failed
  kubectl train logs ptjob/digits --failed
  # Watch the job until it runs
  kubectl train watch ptjob/digits

Read more: kubectl train docs troubleshooting failed
Read more: kubectl train docs troubleshooting pending
`,
		},
		"a program that cannot start has failed": {
			status: failed("BackoffLimitExceeded", `{replica: digits-worker-0, exitCode: 128, reason: StartError, counted: true, time: "2026-11-26T13:57:00Z", message: "failed to create containerd task: exec: \"trian.py\": executable file not found in $PATH"}`),
			want: `
ptjob/digits failed 5m ago, after 7m. Replica digits-worker-0 could not start
its program: exec: "trian.py": executable file not found in $PATH. Check the
command in the template, and whether the image has it. The entrypoint of the
image does not run, so a PATH that only it sets has no effect. No restart is
left, because runPolicy.backoffLimit is 3. Fix the cause, delete the job, and
create it again.

Next:
  # Read the events of the pod
  kubectl events --for pod/digits-worker-0
  # Delete the job. Then correct the command, and create it again
  kubectl train delete ptjob/digits
  # Read the whole output of the replica that failed
  kubectl train logs ptjob/digits --failed

Read more: kubectl train docs troubleshooting failed
`,
		},
		"a supervisor that does not find torchrun has failed": {
			spec:   "torchrunConfig: {enabled: true},",
			status: failed("BackoffLimitExceeded", `{replica: digits-worker-0, exitCode: 127, reason: Error, counted: true, time: "2026-11-26T13:57:00Z", message: "exec: \"torchrun\": executable file not found in $PATH"}`),
			want: `
ptjob/digits failed 5m ago, after 7m. Replica digits-worker-0 ended with exit
code 127: the command of the container is not in the image. The controller runs
torchrun, so the command in the template is not the cause. The image must have
torchrun in the PATH of its environment (ENV). The entrypoint of the image does
not run, so a PATH that only it sets has no effect. Or remove torchrunConfig,
and set the command in the template. No restart is left, because
runPolicy.backoffLimit is 3. Fix the cause, delete the job, and create it again.

Its last output:
  | exec: "torchrun": executable file not found in $PATH

Next:
  # Read the whole output of the replica that failed
  kubectl train logs ptjob/digits --failed
  # Delete the job, to create it again
  kubectl train delete ptjob/digits

Read more: kubectl train docs troubleshooting failed
`,
		},
		"a reason that only the kubelet has": {
			status: failed("BackoffLimitExceeded", `{replica: digits-worker-0, reason: UnexpectedAdmissionError, counted: true, time: "2026-11-26T13:57:00Z", message: "Allocate failed due to no healthy devices"}`),
			want: `
ptjob/digits failed 5m ago, after 7m. Replica digits-worker-0 failed
(UnexpectedAdmissionError): Allocate failed due to no healthy devices. No
restart is left, because runPolicy.backoffLimit is 3. Fix the cause, delete the
job, and create it again.

Next:
  # Read the whole output of the replica that failed
  kubectl train logs ptjob/digits --failed
  # Read the events of the pod
  kubectl events --for pod/digits-worker-0
  # Delete the job, to create it again
  kubectl train delete ptjob/digits

Read more: kubectl train docs troubleshooting failed
`,
		},
		"a device that is unhealthy, and a node that is avoided": {
			status: `phase: Running, reason: ReplicasRunning, ready: 2/2, aggregate: {running: 2}, conditions: [` + conditionOf("Running", "True", "ReplicasRunning", "") + `], avoidedNodes: [{name: gpu-17, reason: DeviceUnhealthy, since: "2026-11-26T13:50:00Z", until: "2026-11-26T14:50:00Z"}], failures: [{replica: digits-worker-1, node: gpu-17, reason: DeviceUnhealthy, counted: false, time: "2026-11-26T13:50:00Z", devices: [{resource: nvidia.com/gpu, id: GPU-4cf8db2d}]}]`,
			want: `
ptjob/digits has run for 5m. All 2 replicas run. Its last failure was 10m ago.
Replica digits-worker-1 (on node gpu-17) failed because the kubelet reports
device nvidia.com/gpu GPU-4cf8db2d as unhealthy. This is no failure of the
program, and the restart does not count. Report the device to an administrator.
New pods of the job avoid node gpu-17 until 14:50 UTC, because replicas failed
there twice (DeviceUnhealthy).

Next:
  # Follow the output of the job
  kubectl train logs ptjob/digits -f
  # Watch the job
  kubectl train watch ptjob/digits
  # Read what is wrong with the node
  kubectl describe node gpu-17
  # List the pods of the job, with their nodes
  kubectl get pods -o wide -l batch.tensorstack.dev/job-name=digits

Read more: kubectl train docs troubleshooting running
Read more: kubectl train docs operate/bad-nodes when-a-node-is-avoided
`,
		},
		"a running job whose node does not answer": {
			status: runs,
			change: func(t *testing.T, facts *Facts) {
				p := pod(t, "digits-worker-1", `{phase: Running, conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: main, state: {running: {}}}]}`)
				p.Spec.NodeName = "node-3"
				facts.Pods = []corev1.Pod{p}
			},
			want: `
ptjob/digits has run for 5m. All 2 replicas run. Not ready, perhaps because the
node does not answer: digits-worker-1 on node node-3.

Next:
  # Follow the output of the job
  kubectl train logs ptjob/digits -f
  # Watch the job
  kubectl train watch ptjob/digits

Read more: kubectl train docs troubleshooting running
`,
		},
		"a running job with a problem of its TensorBoard, an ignored field and a near deadline": {
			spec:   `runPolicy: {activeDeadlineSeconds: 1800},`,
			status: runs,
			change: func(_ *testing.T, facts *Facts) {
				facts.Job.Job.(framework.TensorBoardJob).SetTensorBoardStatus(&batchv1beta1.DependentStatus{
					Reason: "ClaimNotReady", Note: "persistentvolumeclaim digits-logs does not exist",
				})
				facts.Events = []corev1.Event{event("PyTorchTrainingJob", "digits", "NoEffect", "elastic has no effect without "+
					"torchrunConfig")}
			},
			want: `
ptjob/digits has run for 5m. All 2 replicas run. It fails in 21m, at 14:21 UTC,
unless it has ended by then (runPolicy.activeDeadlineSeconds). A part of the
spec has no effect: elastic has no effect without torchrunConfig. Its
TensorBoard waits for a volume: persistentvolumeclaim digits-logs does not
exist. Create the PersistentVolumeClaim, or wait until it is bound.

Next:
  # Follow the output of the job
  kubectl train logs ptjob/digits -f
  # Watch the job
  kubectl train watch ptjob/digits
  # Raise runPolicy.activeDeadlineSeconds
  kubectl edit ptjob/digits
  # Read the spec of the job
  kubectl get ptjob/digits -o yaml
  # List the claims of the namespace
  kubectl get persistentvolumeclaims

Read more: kubectl train docs troubleshooting running
Read more: kubectl train docs troubleshooting failed
`,
		},
		"a job whose last change was not handled, and whose status is not complete": {
			status: runs + `, omitted: "containers of replicas: kubectl get pods has them"`,
			change: func(_ *testing.T, facts *Facts) {
				facts.Job.SetGeneration(2)
			},
			want: `
ptjob/digits has run for 5m. All 2 replicas run. The controller has not handled
the last change of the job yet. If this does not change, the controller does not
run. Its status is not complete: containers of replicas: kubectl get pods has
them.

Next:
  # Follow the output of the job
  kubectl train logs ptjob/digits -f
  # Watch the job
  kubectl train watch ptjob/digits
  # See whether the controller runs
  kubectl get pods -A -l app.kubernetes.io/name=pytorch-controller
  # List the pods of the job, with their nodes
  kubectl get pods -o wide -l batch.tensorstack.dev/job-name=digits

Read more: kubectl train docs troubleshooting running
Read more: kubectl train docs operate/troubleshooting the-controllers
`,
		},
		"a job in debug mode idles": {
			spec:   `runMode: {debug: {enabled: true}},`,
			status: runs,
			want: `
ptjob/digits has run for 5m. All 2 replicas run. It is in debug mode: its
replicas idle until you start the training by hand.

Next:
  # Follow the output of the job
  kubectl train logs ptjob/digits -f
  # Watch the job
  kubectl train watch ptjob/digits
  # Open a shell in the leader
  kubectl train debug ptjob/digits

Read more: kubectl train docs troubleshooting running
Read more: kubectl train docs run-modes debug
`,
		},
		"the progress and the time that is left": {
			status: runs + `, progress: {summary: "42% (420/1000)", estimatedCompletionTime: "2026-11-26T17:00:00Z"}`,
			want: `
ptjob/digits has run for 5m. All 2 replicas run, and the training is at 42%
(420/1000), which leaves about 3h.

Next:
  # Follow the output of the job
  kubectl train logs ptjob/digits -f
  # Watch the job
  kubectl train watch ptjob/digits

Read more: kubectl train docs troubleshooting running
`,
		},
		"a job ends when its last pod has ended": {
			status: `phase: Running, reason: LeaderSucceeded, aggregate: {running: 1, succeeded: 1}, conditions: [` + conditionOf("Running", "False", "Finishing", "leader digits-worker-0 succeeded") + `,` + conditionOf("SuccessCriteriaMet", "True", "LeaderSucceeded", "leader digits-worker-0 succeeded") + `]`,
			want: `
ptjob/digits has succeeded, and its other pods are ending. Its leader
digits-worker-0 ended with exit code 0. Some of its pods still run, and are
ending or being deleted. If a pod stays, its node does not answer, or a webhook
rejects its deletion.

Next:
  # Read the output of the job
  kubectl train logs ptjob/digits
  # List the pods of the job, with their nodes
  kubectl get pods -o wide -l batch.tensorstack.dev/job-name=digits

Read more: kubectl train docs troubleshooting succeeded
Read more: kubectl train docs troubleshooting ending
`,
		},
		"a pod that does not end keeps the job from finishing": {
			status: `phase: Running, reason: DeadlineExceeded, aggregate: {running: 1, succeeded: 1}, conditions: [` + conditionOf("Running", "False", "Finishing", "waiting for overdue pod digits-worker-1 on node node-3 to end: the job was active for longer than runPolicy.activeDeadlineSeconds (600 s)") + `,` + conditionOf("FailureTarget", "True", "DeadlineExceeded", "the job was active for longer than runPolicy.activeDeadlineSeconds (600 s)") + `]`,
			want: `
ptjob/digits has failed, and its pods are ending. The job was active for longer
than runPolicy.activeDeadlineSeconds (600 s). Waiting for a Queue, a node or an
image counts, and waiting for Kueue does not. Delete the job, and create it
again with a longer runPolicy.activeDeadlineSeconds. Its end waits for pod
digits-worker-1 on node node-3, which should have ended before. The node does
not answer, or a webhook rejects the deletion of the pod. Ask an administrator
to check the node.

Next:
  # Read the output of the job
  kubectl train logs ptjob/digits
  # Delete the job, to create it again
  kubectl train delete ptjob/digits
  # List the pods of the job, with their nodes
  kubectl get pods -o wide -l batch.tensorstack.dev/job-name=digits

Read more: kubectl train docs troubleshooting failed
Read more: kubectl train docs troubleshooting ending
`,
		},
		"a pod that does not end keeps the job from restarting": {
			status: waiting("Restarting", "2 of 2 replicas are not running yet: "+
				"waiting for overdue pod digits-worker-1 on node node-3 to end"),
			want: `
ptjob/digits waits: 0 of 2 replicas run. Its restart waits for pod
digits-worker-1 on node node-3, which should be gone. The node does not answer,
or a webhook rejects the deletion of the pod. Ask an administrator to check the
node.

Next:
  # List the pods of the job, with their nodes
  kubectl get pods -o wide -l batch.tensorstack.dev/job-name=digits

Read more: kubectl train docs troubleshooting ending
`,
		},
		"a pod with finalizers keeps the job from restarting": {
			status: waiting("Restarting", "1 of 2 replicas is not running yet: "+
				"waiting for overdue pod digits-worker-1 on node node-3 (its containers have ended) to end"),
			change: func(t *testing.T, facts *Facts) {
				held := pod(t, "digits-worker-1", `{phase: Failed}`)
				held.Finalizers = []string{"example.com/hold"}
				facts.Pods = []corev1.Pod{held}
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. Its restart waits for pod
digits-worker-1 on node node-3 (its containers have ended), which should be
gone. The pod still exists because of its finalizers example.com/hold. The
program that sets a finalizer must remove it. Ask an administrator whether this
program runs.

Next:
  # List the pods of the job, with their nodes
  kubectl get pods -o wide -l batch.tensorstack.dev/job-name=digits

Read more: kubectl train docs troubleshooting ending
`,
		},
		"a job names the only one of its replicas that restarts": {
			status: waiting("Restarting", "1 of 2 replicas is not running yet: digits-worker-1 is being replaced"),
			want: `
ptjob/digits waits: 0 of 2 replicas run. Replica digits-worker-1 is being
replaced. The job continues automatically. The delay grows with each restart.

Next:
  # Read the whole output of the replica that failed
  kubectl train logs ptjob/digits --failed
  # Watch the job until it runs
  kubectl train watch ptjob/digits

Read more: kubectl train docs troubleshooting pending
`,
		},
		"a job that was deleted": {
			status: runs,
			change: func(_ *testing.T, facts *Facts) {
				deleted := before(3 * time.Minute)
				facts.Job.SetDeletionTimestamp(&deleted)
				facts.Job.SetFinalizers([]string{"foregroundDeletion"})
			},
			want: `
ptjob/digits was deleted 3m ago. It still exists because of its finalizers
foregroundDeletion. It is gone when its pods have ended. If a pod stays, its
node does not answer.

Next:
  # List the pods of the job, with their nodes
  kubectl get pods -o wide -l batch.tensorstack.dev/job-name=digits
  # Read all conditions and events of the job
  kubectl describe ptjob/digits

Read more: kubectl train docs troubleshooting ending
`,
		},
		"commands have the flags that reach the namespace": {
			status: waiting("InvalidTemplate", ""),
			change: func(_ *testing.T, facts *Facts) {
				facts.Flags = "--context prod -n vision"
				facts.Job.JobStatus().Conditions[0].Status, facts.Job.JobStatus().Conditions[0].Reason = "False", "InvalidTemplate"
				facts.Job.JobStatus().Conditions[0].Message = "the template mounts a volume at /t9k"
			},
			want: `
ptjob/digits waits: 0 of 2 replicas run. No pod can be made from the template of
the job: the template mounts a volume at /t9k.

Next:
  # Read all conditions and events of the job
  kubectl describe ptjob/digits --context prod -n vision
  # Pause the job, correct the template as the message describes, and resume it
  kubectl train pause ptjob/digits --context prod -n vision && kubectl edit ptjob/digits --context prod -n vision && kubectl train resume ptjob/digits --context prod -n vision

Read more: kubectl train docs troubleshooting pending
`,
		},
		"the controller creates pods": {
			status: waiting("Creating", "2 of 2 replicas are not running yet: digits-worker-0 is being created"),
			want: `
ptjob/digits waits: 0 of 2 replicas run. The controller is creating the pods of
the job, which takes seconds. If this does not change, the controller does not
run.

Next:
  # Watch the job until it runs
  kubectl train watch ptjob/digits
  # See whether the controller runs
  kubectl get pods -A -l app.kubernetes.io/name=pytorch-controller

Read more: kubectl train docs troubleshooting pending
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts := factsAbout(t, tc.spec, tc.status)
			if tc.change != nil {
				tc.change(t, &facts)
			}
			if diff := cmp.Diff(strings.TrimPrefix(tc.want, "\n"), Explain(facts).String()); diff != "" {
				t.Errorf("unexpected text (-want +got):\n%s", diff)
			}
		})
	}
}
