package plan_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan"
)

var owner = metav1.OwnerReference{
	APIVersion: "test/v1", Kind: "TestJob", Name: "job", UID: "job-uid", Controller: new(true),
	BlockOwnerDeletion: new(true),
}

// build makes the pod of the member of a rank, which waits for those of lower ranks: master-0 is 0, worker-0 is 1.
func build(rank int, template *corev1.PodTemplateSpec) (*corev1.Pod, error) {
	gang := framework.NewGang("ns", "job", "job-uid", "cluster.local", 0,
		[]framework.Role{role("master", 1), role("worker", 1)})
	gang.Image = "controller:test"
	awaited := []string{gang.FQDN(gang.Leader())}[:rank]
	return plan.BuildPod(job().Job, gang, rank, awaited, 3, template)
}

func TestBuildPod(t *testing.T) {
	t.Parallel()
	labels := func(roleType string) map[string]string {
		return map[string]string{
			"batch.tensorstack.dev/job-kind":      "TestJob",
			"batch.tensorstack.dev/job-name":      "job",
			"batch.tensorstack.dev/replica-type":  roleType,
			"batch.tensorstack.dev/replica-index": "0",
			"batch.tensorstack.dev/attempt":       "3",
			"app.kubernetes.io/name":              "training-job",
			"app.kubernetes.io/instance":          "job",
			"app.kubernetes.io/component":         roleType,
			"app.kubernetes.io/managed-by":        "tensorstack-jobs",
		}
	}
	small := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	wait := corev1.Container{
		Name:  "wait-for-peers",
		Image: "controller:test",
		Args:  []string{"wait-dns", "--timeout", "10m0s", "job-master-0.job.ns.svc.cluster.local"},
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: new(true), RunAsUser: ptr.To[int64](65532), AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	for name, tc := range map[string]struct {
		rank     int
		template corev1.PodTemplateSpec
		want     *corev1.Pod
	}{
		"a replica may have nobody to wait for": {
			template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: mainContainer, Image: "training"}}},
			},
			want: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "job-master-0", Namespace: "ns", Labels: labels("master"), OwnerReferences: []metav1.OwnerReference{owner},
				},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Hostname: "job-master-0", Subdomain: "job",
					Containers: []corev1.Container{{
						Name: mainContainer, Image: "training", TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
					}},
				},
			},
		},
		"what waits takes of the resources of the pod, if that has its own": {
			rank: 1,
			template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Resources:  &corev1.ResourceRequirements{Limits: small},
				Containers: []corev1.Container{{Name: mainContainer, Resources: corev1.ResourceRequirements{Limits: small}}},
			}},
			want: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "job-worker-0", Namespace: "ns", Labels: labels("worker"), OwnerReferences: []metav1.OwnerReference{owner},
				},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Hostname: "job-worker-0", Subdomain: "job",
					Resources:      &corev1.ResourceRequirements{Limits: small},
					InitContainers: []corev1.Container{wait},
					Containers: []corev1.Container{{
						Name: mainContainer, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
						Resources: corev1.ResourceRequirements{Limits: small},
					}},
				},
			},
		},
		"a replica on the network of its node resolves names of the cluster": {
			template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				HostNetwork: true, Containers: []corev1.Container{{Name: mainContainer}},
			}},
			want: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "job-master-0", Namespace: "ns", Labels: labels("master"), OwnerReferences: []metav1.OwnerReference{owner},
				},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Hostname: "job-master-0", Subdomain: "job",
					HostNetwork: true, DNSPolicy: corev1.DNSClusterFirstWithHostNet,
					Containers: []corev1.Container{{
						Name: mainContainer, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
					}},
				},
			},
		},
		"the DNS policy of the template stands": {
			template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				HostNetwork: true, DNSPolicy: corev1.DNSDefault, Containers: []corev1.Container{{Name: mainContainer}},
			}},
			want: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "job-master-0", Namespace: "ns", Labels: labels("master"), OwnerReferences: []metav1.OwnerReference{owner},
				},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Hostname: "job-master-0", Subdomain: "job",
					HostNetwork: true, DNSPolicy: corev1.DNSDefault,
					Containers: []corev1.Container{{
						Name: mainContainer, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
					}},
				},
			},
		},
		"a peer waits for the leader's name before anything else": {
			rank: 1,
			template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "fetch"}},
				Containers:     []corev1.Container{{Name: "sidecar"}, {Name: mainContainer}},
			}},
			want: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "job-worker-0", Namespace: "ns", Labels: labels("worker"), OwnerReferences: []metav1.OwnerReference{owner},
				},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Hostname: "job-worker-0", Subdomain: "job",
					InitContainers: []corev1.Container{wait, {Name: "fetch"}},
					Containers: []corev1.Container{
						{Name: "sidecar"},
						{Name: mainContainer, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError},
					},
				},
			},
		},
		"the job's way wins, the rest of the template stands": {
			template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Name: "mine", Namespace: "elsewhere",
					Labels: map[string]string{
						"team": "vision", "batch.tensorstack.dev/job-name": "other", "app.kubernetes.io/name": "mine",
						"scheduler.tensorstack.dev/group-name": "of-another-job",
					},
					Annotations: map[string]string{"note": "mine", "scheduler.tensorstack.dev/released": "true"},
				},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyAlways, Hostname: "mine", Subdomain: "mine", SchedulerName: "mine",
					PriorityClassName: "high",
					Containers: []corev1.Container{
						{Name: mainContainer, TerminationMessagePolicy: corev1.TerminationMessageReadFile},
					},
				},
			},
			want: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "job-master-0", Namespace: "ns", OwnerReferences: []metav1.OwnerReference{owner},
					Labels: func() map[string]string {
						l := labels("master")
						l["team"] = "vision"
						return l
					}(),
					Annotations: map[string]string{"note": "mine"},
				},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Hostname: "job-master-0", Subdomain: "job", SchedulerName: "mine",
					PriorityClassName: "high",
					Containers: []corev1.Container{
						{Name: mainContainer, TerminationMessagePolicy: corev1.TerminationMessageReadFile},
					},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := build(tc.rank, &tc.template)
			if err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			diff(t, "pod", tc.want, got)
		})
	}
}

func TestBuildPodRefusesATemplate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rank    int
		spec    corev1.PodSpec
		wantErr string
	}{
		"without a container": {wantErr: `the template of type "master" has no container`},
		"with an init container of the reserved name": {
			rank: 1,
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "wait-for-peers"}},
				Containers:     []corev1.Container{{Name: mainContainer}},
			},
			wantErr: `the template of type "worker" has a container named "wait-for-peers", which is reserved`,
		},
		"with a container of the reserved name": {
			rank:    1,
			spec:    corev1.PodSpec{Containers: []corev1.Container{{Name: "wait-for-peers"}}},
			wantErr: `the template of type "worker" has a container named "wait-for-peers", which is reserved`,
		},
		"for another system than that of the container that waits": {
			rank: 1,
			spec: corev1.PodSpec{
				OS: &corev1.PodOS{Name: corev1.Windows}, Containers: []corev1.Container{{Name: mainContainer}},
			},
			wantErr: `the template of type "worker" is for Windows, but the container "wait-for-peers" of its pods is for Linux`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := build(tc.rank, &corev1.PodTemplateSpec{Spec: tc.spec})
			if err == nil {
				t.Fatal("no error")
			}
			diff(t, "error", tc.wantErr, err.Error())
		})
	}
}

// Attempts are told apart by their labels: none is that of another.
func TestAttempt(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]attempt{"0": {}, "2": {job: 2}, "0.2": {replica: 2}, "12.3": {job: 12, replica: 3}} {
		diff(t, "label", want, plan.AttemptLabel(a.job, a.replica))
	}
}

// A framework may have helper containers of its own.
func TestGangKnowsTheImageOfTheController(t *testing.T) {
	t.Parallel()
	b := job(role("worker", 2))
	images := map[string]string{}
	b.Wire = func(gang framework.Gang, member framework.Member, _ *corev1.PodTemplateSpec) error {
		images[member.Name] = gang.Image
		return nil
	}
	podsToCreate(b.Sees())
	diff(t, "images", map[string]string{"job-worker-0": "controller:test", "job-worker-1": "controller:test"}, images)
}
