package why

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestSchedulerWords(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ message, want string }{
		"one reason for all nodes": {
			"0/4 nodes are available: 4 Insufficient cpu. preemption: 0/4 nodes are available: 4 No preemption victims found.",
			"All 4 nodes have too little cpu left.",
		},
		"too few resources come first, and the taint has its key": {
			"0/3 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, " +
				"2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 none.",
			"Of the 3 nodes, 2 have too little nvidia.com/gpu left and 1 has the taint node-role.kubernetes.io/control-plane, " +
				"which the job does not tolerate.",
		},
		"taints without keys": {
			"0/2 nodes are available: 2 node(s) had untolerated taint(s).",
			"All 2 nodes have a taint that the job does not tolerate.",
		},
		"the only node has several reasons": {
			"0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.",
			"The only node has too little cpu left and has too little memory left.",
		},
		"node selectors and cordoned nodes": {
			"0/5 nodes are available: 3 node(s) didn't match Pod's node affinity/selector, 2 node(s) were unschedulable.",
			"Of the 5 nodes, 3 do not match the node selector or the affinity of the job and 2 are closed for new pods " +
				"(cordoned).",
		},
		"a reason that is not known keeps its words": {
			"0/2 nodes are available: 2 node(s) had a bad mood, really.",
			"All 2 nodes do not fit: had a bad mood, really.",
		},
		"a problem of the pod itself is quoted": {
			"0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/2 nodes are available.",
			"The scheduler reports: pod has unbound immediate PersistentVolumeClaims.",
		},
		"the words of a scheduler that does not find the state of a plugin are left out": {
			"0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
			"The scheduler reports: pod has unbound immediate PersistentVolumeClaims.",
		},
		"the number of pods of a gang is left out": {
			"0 of 3 pods are on nodes: 0/2 nodes are available: 2 Too many pods.",
			"All 2 nodes have no room for another pod.",
		},
		"another message is quoted": {
			"all nodes are unavailable", "The scheduler reports: all nodes are unavailable.",
		},
		"no message": {"", "The scheduler reports no reason."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, schedulerWords(tc.message)); diff != "" {
				t.Errorf("unexpected words (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRegistryWords(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ message, want string }{
		"the answer of the registry is kept": {
			`Back-off pulling image "a:1": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image ` +
				`"docker.io/library/a:1": failed to resolve reference "docker.io/library/a:1": docker.io/library/a:1: not found`,
			"docker.io/library/a:1: not found",
		},
		"a message that only repeats the state is empty": {`Back-off pulling image "a:1"`, ""},
		"a registry that cannot be reached": {
			`ErrImagePull: failed to do request: Head "https://ghcr.io/v2/a/manifests/1": dial tcp: lookup ghcr.io: no such host`,
			"dial tcp: lookup ghcr.io: no such host",
		},
		"the words of docker": {"Error response from daemon: manifest for a:1 not found", "manifest for a:1 not found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, registryWords(tc.message)); diff != "" {
				t.Errorf("unexpected words (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImagePullNamesTheRemedy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ reason, message, want string }{
		"an invalid name": {"InvalidImageName", `couldn't parse image name "a b"`, "The name is not valid. Correct it."},
		"a policy that never pulls": {
			"ErrImageNeverPull", "Container image is not present with pull policy of Never",
			"Its imagePullPolicy is Never, and the node does not have the image. Use another policy, or another image.",
		},
		"a limit of the registry": {
			"ErrImagePull", "429 Too Many Requests - toomanyrequests",
			"The registry limits how often it is asked. Wait, or log in with a secret that the template names in " +
				"imagePullSecrets.",
		},
		"another kind of CPU": {
			"ErrImagePull", "no match for platform in manifest: not found",
			"The image is not for the kind of CPU that the node has. Use another image.",
		},
		"a certificate that the node does not trust": {
			"ErrImagePull", "x509: certificate signed by unknown authority",
			"The node cannot reach the registry. Check the name of the registry, and ask an administrator whether the nodes " +
				"may reach it.",
		},
		"another problem": {
			"ErrImagePull", "the disk is full",
			"Check the name of the image, its registry, and the imagePullSecrets of the template.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts := factsAbout(t, "", waiting("ImagePull", ""))
			facts.Pods = append(facts.Pods, waitingPod(t, "digits-worker-0", tc.reason, tc.message))
			v := newView(facts)
			if diff := cmp.Diff(tc.want, imagePull(v, condition{}).do); diff != "" {
				t.Errorf("unexpected remedy (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCreateFailed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ message, want, command string }{
		"a quota without room": {
			`creating pod digits-worker-1: pods "digits-worker-1" is forbidden: exceeded quota: team, requested: ` +
				`limits.memory=16Gi,pods=1, used: limits.memory=48Gi,pods=4, limited: limits.memory=48Gi,pods=4`,
			"The ResourceQuota team of the namespace vision has no room for another pod: 48Gi of 48Gi limits.memory are in " +
				"use, and the pod needs 16Gi and 4 of 4 pods are in use, and the pod needs 1.",
			"kubectl describe resourcequota team",
		},
		"a quota that requires limits": {
			`pods "digits-worker-0" is forbidden: failed quota: team: must specify limits.cpu for: main; requests.cpu for: main`,
			"The ResourceQuota team of the namespace vision requires that each container specifies limits.cpu for: main; " +
				"requests.cpu for: main.",
			"kubectl describe resourcequotas",
		},
		"Pod Security": {
			`pods "digits-worker-0" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`,
			`The Pod Security level of the namespace vision forbids the pods of the job: "restricted:latest": ` +
				`allowPrivilegeEscalation != false.`,
			"kubectl get namespace vision --show-labels",
		},
		"a container that the controller adds": {
			`pods "digits-worker-0" is forbidden: minimum cpu usage per Container is 200m, but request is 100m; the API ` +
				`server accepts the pod without its container "progress", which the controller adds: an administrator can`,
			`The API server rejects an object that the job needs: pods "digits-worker-0" is forbidden: minimum cpu usage per ` +
				`Container is 200m, but request is 100m; the API server accepts the pod without its container "progress", ` +
				`which the controller adds: an administrator can.`,
			"kubectl describe ptjob/digits",
		},
		"a webhook that does not answer": {
			`Internal error occurred: failed calling webhook "mpod.kb.io": connection refused`,
			"A webhook of the cluster does not answer, so the API server rejects the pods of the job: Internal error " +
				`occurred: failed calling webhook "mpod.kb.io": connection refused.`,
			"kubectl describe ptjob/digits",
		},
		"an object that does not exist": {
			`pods "digits-worker-0" is forbidden: error looking up service account vision/train: serviceaccount "train" not found`,
			"The pods of the job need the ServiceAccount train, which does not exist in the namespace vision.",
			"kubectl get serviceaccounts",
		},
		"a policy": {
			`admission webhook "policy.example.com" denied the request: no team label`,
			`The API server rejects an object that the job needs: admission webhook "policy.example.com" denied the ` +
				`request: no team label.`,
			"kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newView(factsAbout(t, "", ""))
			e := createFailed(v, condition{message: tc.message})
			if diff := cmp.Diff(tc.want, v.text(e.cause, condition{message: tc.message})); diff != "" {
				t.Errorf("unexpected cause (-want +got):\n%s", diff)
			}
			var lines []string
			for _, command := range v.commands(e) {
				lines = append(lines, command.Line)
			}
			if !slices.Contains(lines, tc.command) {
				t.Errorf("the commands are %q, want also %q", lines, tc.command)
			}
		})
	}
}

func TestMissingObject(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		message string
		want    []string
	}{
		"a Secret": {`secret "wandb" not found`, []string{"kubectl get secrets", "kubectl describe {job}"}},
		"a key of a ConfigMap": {
			"couldn't find key config.json in ConfigMap vision/digits",
			[]string{"kubectl describe configmap digits", "kubectl describe {job}"},
		},
		"a name that no object can have is part of no command": {`secret "$(reboot)" not found`, nil},
		"something else": {"context deadline exceeded", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			if found := missingObject(tc.message); found != nil {
				for _, s := range found.next {
					got = append(got, s.line)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected commands (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNameConflictNamesTheObject(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ message, want string }{
		"an object of Kubernetes": {
			"the job needs service digits, but one exists that is not the job's: delete it or rename the job",
			"kubectl describe service digits",
		},
		"an object of this project": {
			"the job needs podgroup digits, but one exists that belongs to Job other (UID 1): rename the job",
			"kubectl describe podgroups.scheduler.tensorstack.dev digits",
		},
		"a message without an object": {"another message", "kubectl describe {job}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := nameConflict(view{}, condition{message: tc.message}).next[0].line
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected first command (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMeaningOfCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[int32]string{
		1:   ", an error of the program",
		127: ": the command of the container is not in the image",
		134: " (SIGABRT): the program aborted itself, often because of a failed check in C++ or CUDA code",
		135: " (SIGBUS): often the shared memory /dev/shm was too small for the workers of a data loader",
		139: " (SIGSEGV): a segmentation fault, which is an error in native code",
		143: " (SIGTERM): something outside asked it to end",
		3:   "", // only the program knows the meaning
	} {
		if diff := cmp.Diff(want, meaningOfCode(code)); diff != "" {
			t.Errorf("exit code %d (-want +got):\n%s", code, diff)
		}
	}
}

func TestDoAboutProgram(t *testing.T) {
	t.Parallel()
	const torchrun = "torchrunConfig: {enabled: true},"
	const notFound = `: executable file not found in $PATH`
	const entrypoint = "The entrypoint of the image does not run, so a PATH that only it sets has no effect."
	for name, tc := range map[string]struct{ spec, message, want string }{
		"torchrun of the controller is not a command of the template": {
			torchrun, `exec: "torchrun"` + notFound,
			"The controller runs torchrun, so the command in the template is not the cause. The image must have " +
				"torchrun in the PATH of its environment (ENV). " + entrypoint +
				" Or remove torchrunConfig, and set the command in the template.",
		},
		"torchrun of the user is a command of the template": {
			"", `exec: "torchrun"` + notFound, "Check the command. " + entrypoint,
		},
		"another program is a command of the template": {
			torchrun, `exec: "trian.py"` + notFound, "Check the command. " + entrypoint,
		},
		"a program that is no file of the PATH has no other advice": {
			torchrun, `exec: "/train": permission denied`, "Check the command.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := newView(factsAbout(t, tc.spec, "")).doAboutProgram(tc.message, "Check the command.")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected advice (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDoAboutMesh(t *testing.T) {
	t.Parallel()
	const reset = "RuntimeError: [1] is setting up NCCL communicator: Connection reset by peer"
	const istio = "The pod has the proxy istio-proxy of a service mesh, which can reset connections between replicas. " +
		"If no other replica failed before, keep the pods out of the mesh: give the template the label " +
		`sidecar.istio.io/inject: "false".`
	for name, tc := range map[string]struct {
		message          string
		containers, init []string
		want             string
	}{
		"a proxy of Istio can reset connections": {reset, []string{"main", "istio-proxy"}, nil, istio},
		"a proxy can be an init container":       {reset, []string{"main"}, []string{"istio-init", "istio-proxy"}, istio},
		"a proxy of Linkerd can reset connections": {
			reset,
			[]string{"linkerd-proxy", "main"},
			nil,
			"The pod has the proxy linkerd-proxy of a service mesh, which can reset connections between replicas. If no " +
				"other replica failed before, keep the pods out of the mesh: give the template the annotation " +
				"linkerd.io/inject: disabled.",
		},
		"without a proxy, there is no advice":      {reset, []string{"main"}, nil, ""},
		"a proxy does not explain another failure": {"ValueError: no data", []string{"main", "istio-proxy"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts := factsAbout(t, "", failed("BackoffLimitExceeded", `{replica: digits-worker-0, exitCode: 1, reason: Error, `+
				`time: "2026-11-26T13:57:00Z", message: "`+tc.message+`"}`))
			p := pod(t, "digits-worker-0", "{phase: Failed}")
			p.Spec.Containers = nil
			for _, name := range tc.containers {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
			}
			for _, name := range tc.init {
				p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name})
			}
			facts.Pods = []corev1.Pod{p}
			v := newView(facts)
			if diff := cmp.Diff(tc.want, failedWithError(v, condition{}).do); diff != "" {
				t.Errorf("unexpected advice (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSentence(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"no other step was reported.": "No other step was reported", "éteint": "Éteint", "世界": "世界", "\xff": "\ufffd",
		"": "No reason is given", strings.Repeat("x", 401): "X" + strings.Repeat("x", 396) + " [...]",
	} {
		if got := sentence(message); got != want {
			t.Errorf("the sentence of %q is %q, want %q", message, got, want)
		}
	}
}

func TestCommandsKeepQuotedNames(t *testing.T) {
	t.Parallel()
	facts := factsAbout(t, "scheduler: {t9kScheduler: {queue: a && b}},", "")
	facts.Flags = "--kubeconfig '/my files/a'"
	line := "kubectl get {queue} && kubectl get {job}"
	want := "kubectl get 'a && b' " + facts.Flags + " && kubectl get ptjob/digits " + facts.Flags
	commands := newView(facts).commands(entry{next: []step{{line: line}, {line: "kubectl get {none}"}}})
	if len(commands) != 1 || commands[0].Line != want {
		t.Errorf("the commands are %+v, want only %q", commands, want)
	}
}

// Nodes have no namespace, so a command about nodes needs only the flags that select the cluster.
func TestCommandsAboutTheClusterHaveOnlyTheFlagsOfTheCluster(t *testing.T) {
	t.Parallel()
	facts := factsAbout(t, "", "")
	facts.ClusterFlags, facts.Flags = "--context prod", "--context prod -n vision"
	commands := newView(facts).commands(entry{next: []step{{line: "kubectl describe nodes", ofCluster: true}}})
	if want := "kubectl describe nodes --context prod"; len(commands) != 1 || commands[0].Line != want {
		t.Errorf("the commands are %+v, want only %q", commands, want)
	}
}

func TestQuotaRefuses(t *testing.T) {
	t.Parallel()
	v := newView(factsAbout(t, "", ""))
	c := condition{message: "older jobs of the namespace wait for room in the ResourceQuota few"}
	want := "The job waits for a ResourceQuota of the namespace vision: older jobs of the namespace wait for room in " +
		"the ResourceQuota few."
	if diff := cmp.Diff(want, v.text(quotaRefuses(v, c).cause, c)); diff != "" {
		t.Errorf("unexpected cause of a job behind others (-want +got):\n%s", diff)
	}
}
