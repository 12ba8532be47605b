package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/internal/jobtest"
)

// boardJob is a job that can have a TensorBoard.
type boardJob struct {
	testJob

	board       *tensorboardv1beta1.TensorBoardSpec
	boardStatus *batchv1beta1.DependentStatus
}

func (j *boardJob) DeepCopyObject() runtime.Object {
	job := *j
	job.ConfigMap = *j.DeepCopy()
	return &job
}

func (j *boardJob) TensorBoardSpec() *tensorboardv1beta1.TensorBoardSpec { return j.board }
func (j *boardJob) TensorBoardStatus() *batchv1beta1.DependentStatus     { return j.boardStatus }
func (j *boardJob) SetTensorBoardStatus(s *batchv1beta1.DependentStatus) { j.boardStatus = s }

// fixed is a framework whose jobs all have the same spec.
type fixed struct {
	spec    framework.JobSpec
	wireErr error
}

func (fixed) NewJob() *boardJob                     { return &boardJob{} }
func (f fixed) JobSpec(*boardJob) framework.JobSpec { return f.spec }
func (fixed) MainContainers() []string              { return []string{mainContainer} }

func (f fixed) Wire(_ *boardJob, peers framework.Peers, _ framework.Member, template *corev1.PodTemplateSpec) error {
	template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "UID", Value: string(peers.UID)}}
	return f.wireErr
}

// fixedWithSecret is a framework whose jobs also have a Secret.
type fixedWithSecret struct{ fixed }

func (fixedWithSecret) SecretName(job *boardJob) string { return job.Name + "-keys" }

func (fixedWithSecret) NewSecret(*boardJob) (*corev1.Secret, error) {
	return &corev1.Secret{Data: map[string][]byte{"key": []byte("private")}}, nil
}

// brief returns objects as texts such as "Pod job-worker-0".
func brief(objects []client.Object) []string {
	var texts []string
	for _, object := range objects {
		kind := fmt.Sprintf("%T", object)
		texts = append(texts, kind[strings.LastIndex(kind, ".")+1:]+" "+object.GetName())
	}
	return texts
}

func TestNewPreview(t *testing.T) {
	for name, tc := range map[string]struct {
		spec        func(*framework.JobSpec)
		job         func(*boardJob)
		wireErr     error
		withSecret  bool
		options     func(*Options)
		want        []string
		wantLater   []string
		wantReason  string
		wantMessage string
	}{
		"a plain job has a Service and the pods of all replicas": {
			want: []string{"Service job", "Pod job-worker-0", "Pod job-worker-1"}, wantReason: "Accepted",
		},
		"the NetworkPolicy and the Secret are created before the pods": {
			withSecret: true, options: func(o *Options) { o.NetworkPolicies.Enabled = true },
			want:       []string{"NetworkPolicy job", "Service job", "Secret job-keys", "Pod job-worker-0", "Pod job-worker-1"},
			wantReason: "Accepted",
		},
		"the TensorBoard is created last": {
			job:        func(j *boardJob) { j.board = &tensorboardv1beta1.TensorBoardSpec{Image: "board"} },
			want:       []string{"Service job", "Pod job-worker-0", "Pod job-worker-1", "TensorBoard job"},
			wantReason: "Accepted",
		},
		"the pods and the Secret of a gang are created once its PodGroup is admitted": {
			withSecret: true,
			spec: func(s *framework.JobSpec) {
				s.Scheduler = &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: "lab"}}
			},
			want:      []string{"PodGroup job", "Service job"},
			wantLater: []string{"Secret job-keys", "Pod job-worker-0", "Pod job-worker-1"}, wantReason: "Accepted",
		},
		"the pods of a job for Kueue are created once its Workload is admitted": {
			job:  func(j *boardJob) { j.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "lab"} },
			want: []string{"Workload job", "Service job"}, wantLater: []string{"Pod job-worker-0", "Pod job-worker-1"},
			wantReason: "Accepted",
		},
		"a job that MultiKueue runs has only a Workload": {
			job:        func(j *boardJob) { j.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "lab"} },
			spec:       func(s *framework.JobSpec) { s.ManagedBy = batchv1beta1.ManagedByMultiKueue },
			want:       []string{"Workload job"},
			wantReason: "Accepted",
		},
		"a job with two queues has no pods": {
			job: func(j *boardJob) { j.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "lab"} },
			spec: func(s *framework.JobSpec) {
				s.Scheduler = &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: "lab"}}
			},
			want: []string{"Service job"}, wantReason: "InvalidTemplate",
			wantMessage: "the job has both spec.scheduler.t9kScheduler and the label kueue.x-k8s.io/queue-name: remove one of " +
				"them",
		},
		"a paused job has no pods": {
			spec: func(s *framework.JobSpec) {
				s.RunMode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
			},
			wantReason: "Accepted",
		},
		"a job of another controller has no objects": {
			spec: func(s *framework.JobSpec) { s.ManagedBy = "example.com/controller" },
		},
		"a job without replicas has no pods": {
			spec:       func(s *framework.JobSpec) { s.Roles[0].Replicas = 0 },
			wantReason: "NoReplicas", wantMessage: "every replicaSpec has 0 replicas: nothing can run",
		},
		"a job with an invalid template has no pods": {
			wireErr: errors.New("the template is wrong"), want: []string{"Service job"}, wantReason: "InvalidTemplate",
			wantMessage: "the template is wrong",
		},
		"the status of an existing job has no effect": {
			job: func(j *boardJob) {
				j.board = &tensorboardv1beta1.TensorBoardSpec{Image: "board"}
				j.status.Phase, j.status.Attempt = batchv1beta1.JobPhaseSucceeded, 3
				j.boardStatus = jobtest.Warning("Create", "NameConflict", "it belongs to somebody else")
			},
			want:       []string{"Service job", "Pod job-worker-0", "Pod job-worker-1", "TensorBoard job"},
			wantReason: "Accepted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := fixed{spec: jobtest.NewJob(jobtest.Role("worker", 2)).Spec, wireErr: tc.wireErr}
			if tc.spec != nil {
				tc.spec(&f.spec)
			}
			job := &boardJob{}
			job.Namespace, job.Name = "ns", "job"
			if tc.job != nil {
				tc.job(job)
			}
			options := DefaultOptions()
			options.Clock = testingclock.NewFakePassiveClock(now)
			if tc.options != nil {
				tc.options(&options)
			}
			p, err := NewPreview(f, testKind, job, options)
			if tc.withSecret {
				p, err = NewPreview(fixedWithSecret{f}, testKind, job, options)
			}
			if err != nil {
				t.Fatal(err)
			}
			diff(t, "objects", tc.want, brief(p.Objects))
			diff(t, "objects after the admission", tc.wantLater, brief(p.Admitted))
			if got := p.Admission != nil; got != (len(p.Objects) > 0 && p.Objects[0] == p.Admission) {
				t.Errorf("the admission is %v, but the objects are %v", p.Admission, brief(p.Objects))
			}
			initialized := meta.FindStatusCondition(p.Status.Conditions, batchv1beta1.ConditionInitialized)
			if initialized == nil {
				initialized = &metav1.Condition{}
			}
			diff(t, "reason of Initialized", tc.wantReason, initialized.Reason)
			if tc.wantMessage != "" {
				diff(t, "message of Initialized", tc.wantMessage, initialized.Message)
			}
		})
	}
}

func TestNewPreviewLeavesOutRandomValues(t *testing.T) {
	f := fixedWithSecret{fixed{spec: jobtest.NewJob(jobtest.Role("worker", 1)).Spec}}
	f.spec.ReportsProgress = true
	job := &boardJob{}
	job.Namespace, job.Name = "ns", "job"
	p, err := NewPreview(f, testKind, job, DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range p.Objects {
		if owner := object.GetOwnerReferences()[0].UID; owner != UnknownUID {
			t.Errorf("the owner of %s has the UID %q, want %q", object.GetName(), owner, UnknownUID)
		}
	}
	secret, pod := p.Objects[1].(*corev1.Secret), p.Objects[2].(*corev1.Pod)
	diff(t, "keys of the Secret", map[string][]byte{"key": {}}, secret.Data)
	diff(t, "token", "(random)", pod.Annotations[batchv1beta1.AnnotationProgressToken])
	env := pod.Spec.Containers[0].Env
	diff(t, "variable of the framework", corev1.EnvVar{Name: "UID", Value: string(UnknownUID)}, env[len(env)-1])
	if job.UID != "" {
		t.Errorf("the job was changed: it has the UID %q", job.UID)
	}
}

func TestNewPreviewKeepsTheUIDOfAnExistingJob(t *testing.T) {
	job := &boardJob{}
	job.Namespace, job.Name, job.UID = "ns", "job", "job-uid"
	p, err := NewPreview(fixed{spec: jobtest.NewJob(jobtest.Role("worker", 1)).Spec}, testKind, job, DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "metadata of the Service", wantOwnedMeta(), p.Objects[0].(*corev1.Service).ObjectMeta)
}
