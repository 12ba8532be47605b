package decide_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan/decide"
)

var owner = metav1.OwnerReference{
	APIVersion: "test/v1", Kind: "TestJob", Name: "job", UID: "job-uid", Controller: new(true),
	BlockOwnerDeletion: new(true),
}

// build returns the pod of the member with the given rank: 0 is master-0, and 1 is worker-0. The pod waits for the
// members of lower ranks.
func build(rank int, template *corev1.PodTemplateSpec) (*corev1.Pod, error) {
	peers := framework.NewPeers("ns", "job", "job-uid", "cluster.local", 0,
		[]framework.Role{jobtest.Role("master", 1), jobtest.Role("worker", 1)})
	peers.Image = "controller:test"
	awaited := []string{peers.FQDN(peers.Leader())}[:rank]
	return decide.BuildPod(jobtest.NewJob().Job, peers, rank, awaited, 3, template)
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
			RunAsNonRoot: new(true), AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	shared := corev1.VolumeMount{Name: "shared", MountPath: "/shared"}
	installing := corev1.PodSpec{Containers: []corev1.Container{{Name: jobtest.MainContainer}}}
	if err := (framework.Peers{Image: "controller:test"}).AddInstaller(
		framework.Member{}, &installing, installing.Containers[0], "install", shared); err != nil {
		t.Fatal(err)
	}
	installAndWait := wait
	installAndWait.Args = slices.Insert(slices.Clone(wait.Args), 1, "--install=/shared")
	installAndWait.VolumeMounts = []corev1.VolumeMount{shared}
	installAndWait.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	waitLimited := wait
	waitLimited.Resources.Limits = small
	for name, tc := range map[string]struct {
		rank     int
		template corev1.PodTemplateSpec
		want     *corev1.Pod
	}{
		"a replica that waits for no peer has no init container": {
			template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: jobtest.MainContainer, Image: "training"}}},
			},
			want: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "job-master-0", Namespace: "ns", Labels: labels("master"), OwnerReferences: []metav1.OwnerReference{owner},
				},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Hostname: "job-master-0", Subdomain: "job",
					Containers: []corev1.Container{{
						Name: jobtest.MainContainer, Image: "training",
						TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
					}},
				},
			},
		},
		"the init container has the resources of the main container": {
			rank: 1,
			template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Resources: &corev1.ResourceRequirements{Limits: small},
				Containers: []corev1.Container{{
					Name: jobtest.MainContainer, Resources: corev1.ResourceRequirements{Limits: small},
				}},
			}},
			want: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "job-worker-0", Namespace: "ns", Labels: labels("worker"), OwnerReferences: []metav1.OwnerReference{owner},
				},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Hostname: "job-worker-0", Subdomain: "job",
					Resources:      &corev1.ResourceRequirements{Limits: small},
					InitContainers: []corev1.Container{waitLimited},
					Containers: []corev1.Container{{
						Name: jobtest.MainContainer, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
						Resources: corev1.ResourceRequirements{Limits: small},
					}},
				},
			},
		},
		"a replica on the host network resolves cluster names": {
			template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				HostNetwork: true, Containers: []corev1.Container{{Name: jobtest.MainContainer}},
			}},
			want: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "job-master-0", Namespace: "ns", Labels: labels("master"), OwnerReferences: []metav1.OwnerReference{owner},
				},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Hostname: "job-master-0", Subdomain: "job",
					HostNetwork: true, DNSPolicy: corev1.DNSClusterFirstWithHostNet,
					Containers: []corev1.Container{{
						Name: jobtest.MainContainer, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
					}},
				},
			},
		},
		"the DNS policy of the template is kept": {
			template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				HostNetwork: true, DNSPolicy: corev1.DNSDefault, Containers: []corev1.Container{{Name: jobtest.MainContainer}},
			}},
			want: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "job-master-0", Namespace: "ns", Labels: labels("master"), OwnerReferences: []metav1.OwnerReference{owner},
				},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Hostname: "job-master-0", Subdomain: "job",
					HostNetwork: true, DNSPolicy: corev1.DNSDefault,
					Containers: []corev1.Container{{
						Name: jobtest.MainContainer, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
					}},
				},
			},
		},
		"a peer waits for the name of the leader before other init containers run, and names its main container": {
			rank: 1,
			template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "fetch"}, {Name: "silent", TerminationMessagePolicy: "File"}},
				Containers:     []corev1.Container{{Name: "sidecar"}, {Name: jobtest.MainContainer}},
			}},
			want: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "job-worker-0", Namespace: "ns", Labels: labels("worker"), OwnerReferences: []metav1.OwnerReference{owner},
					Annotations: map[string]string{"kubectl.kubernetes.io/default-container": jobtest.MainContainer},
				},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Hostname: "job-worker-0", Subdomain: "job",
					InitContainers: []corev1.Container{
						wait,
						{Name: "fetch", TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError},
						{Name: "silent", TerminationMessagePolicy: "File"},
					},
					Containers: []corev1.Container{
						{Name: "sidecar"},
						{Name: jobtest.MainContainer, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError},
					},
				},
			},
		},
		"one init container of a peer installs a program and waits, and its last output shows why it failed": {
			rank: 1, template: corev1.PodTemplateSpec{Spec: installing},
			want: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "job-worker-0", Namespace: "ns", Labels: labels("worker"), OwnerReferences: []metav1.OwnerReference{owner},
				},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Hostname: "job-worker-0", Subdomain: "job",
					InitContainers: []corev1.Container{installAndWait},
					Containers: []corev1.Container{
						{Name: jobtest.MainContainer, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError},
					},
				},
			},
		},
		"fields of the job override those of the template, and the others are kept": {
			template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Name: "mine", Namespace: "elsewhere",
					Labels: map[string]string{
						"team": "vision", "batch.tensorstack.dev/job-name": "other", "app.kubernetes.io/name": "mine",
						"scheduler.tensorstack.dev/group-name": "of-another-job", batchv1beta1.LabelAdmittedBy: "workload-uid",
					},
					Annotations: map[string]string{"note": "mine", "scheduler.tensorstack.dev/released": "true"},
				},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyAlways, Hostname: "mine", Subdomain: "mine", SchedulerName: "mine",
					PriorityClassName: "high", ServiceAccountName: "trainer",
					ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
					Containers: []corev1.Container{
						{Name: jobtest.MainContainer, TerminationMessagePolicy: corev1.TerminationMessageReadFile},
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
					PriorityClassName: "high", ServiceAccountName: "trainer",
					ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
					Containers: []corev1.Container{
						{Name: jobtest.MainContainer, TerminationMessagePolicy: corev1.TerminationMessageReadFile},
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
			jobtest.Diff(t, "pod", tc.want, got)
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
		"an init container with the reserved name is refused": {
			rank: 1,
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "wait-for-peers"}},
				Containers:     []corev1.Container{{Name: jobtest.MainContainer}},
			},
			wantErr: `the template of type "worker" has a container named "wait-for-peers", which is reserved`,
		},
		"a container with the reserved name is refused": {
			rank:    1,
			spec:    corev1.PodSpec{Containers: []corev1.Container{{Name: "wait-for-peers"}}},
			wantErr: `the template of type "worker" has a container named "wait-for-peers", which is reserved`,
		},
		"a template for Windows is refused, since the init container is for Linux": {
			rank: 1,
			spec: corev1.PodSpec{
				OS: &corev1.PodOS{Name: corev1.Windows}, Containers: []corev1.Container{{Name: jobtest.MainContainer}},
			},
			wantErr: `the template of type "worker" is for Windows, but the container "wait-for-peers" of its pods is for Linux`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := build(tc.rank, &corev1.PodTemplateSpec{Spec: tc.spec})
			if err == nil {
				t.Fatal("the template is accepted")
			}
			jobtest.Diff(t, "error", tc.wantErr, err.Error())
		})
	}
}
