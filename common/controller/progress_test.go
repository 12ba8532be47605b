package controller

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/fair"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/progress"
)

var theJob = types.NamespacedName{Namespace: "ns", Name: "job"}

// polled is a fake Progress. It has the readings of pods by their UIDs, and records which pods are read.
type polled struct {
	readings map[types.UID]progress.Reading
	counted  *progress.Reading // of the supervisor, nil if there is none
	followed []progress.Pod
	forgot   []types.NamespacedName
}

func (p *polled) Follow(_ types.NamespacedName, pods []progress.Pod) []progress.Reading {
	p.followed = pods
	var readings []progress.Reading
	for _, pod := range pods {
		if pod.OfSupervisor && p.counted != nil {
			readings = append(readings, *p.counted)
		}
		if reading, ok := p.readings[pod.UID]; ok && !pod.OfSupervisor {
			readings = append(readings, reading)
		}
	}
	return readings
}

func (p *polled) Forget(job types.NamespacedName) { p.forgot = append(p.forgot, job) }

// reporting adds an IP address to a pod, and the annotations of a pod that reports progress.
func reporting(p *corev1.Pod) {
	p.Annotations = map[string]string{
		batchv1beta1.AnnotationProgressPort: "29499", batchv1beta1.AnnotationProgressToken: "secret",
	}
	p.Status.PodIP = "10.0.0.7"
}

// counting adds an IP address to a pod, and the annotation of a pod whose supervisor counts restarts in place.
func counting(p *corev1.Pod) {
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[batchv1beta1.AnnotationSupervisorPort] = "29498"
	p.Status.PodIP = "10.0.0.7"
}

// sidecarEnded adds the status of a receiver that ended a minute ago, with a termination message.
func sidecarEnded(message string) podOption {
	return func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{
			{Name: "fetch", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "other"}}},
			{Name: "progress", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Message: message, FinishedAt: jobtest.Ago(time.Minute),
			}}},
		}
	}
}

func withoutToken(p *corev1.Pod) { delete(p.Annotations, batchv1beta1.AnnotationProgressToken) }

// onIPv6 gives a pod an IPv6 address.
func onIPv6(p *corev1.Pod) { p.Status.PodIP = "fd00::7" }

func TestReadings(t *testing.T) {
	t.Parallel()
	const uid = "job-worker-0-uid-0"
	step := progress.State{
		Reports: 3, Step: new(int64(420)), SinceReport: 2 * time.Second, SinceProgress: 5 * time.Second,
		AnnouncedSilence: time.Minute,
	}
	read := func(r progress.Reading) map[types.UID]progress.Reading {
		r.UID = uid
		return map[types.UID]progress.Reading{uid: r}
	}
	counted := progress.Reading{UID: uid, OfSupervisor: true, Time: now, State: progress.State{
		Restarts: progress.Restarts{Count: 2, Last: []progress.Restart{{Rank: new(int32(3)), Since: 1000}}},
	}}
	lastRestarts := []batchv1beta1.RestartInPlace{{Rank: new(int32(3)), Time: metav1.NewTime(now.Add(-time.Second))}}
	supervisor := progress.Pod{
		UID: uid, OfSupervisor: true, Target: progress.Target{Address: "10.0.0.7:29498", Token: "job-uid-0"},
	}
	ended := supervisor
	ended.HasEnded = true
	one := func(r view.Reading) map[types.UID]view.Reading { return map[types.UID]view.Reading{uid: r} }
	status := func(at time.Time) *batchv1beta1.ProgressStatus {
		return &batchv1beta1.ProgressStatus{
			Summary: "step 420", Step: new(int64(420)), LastReportTime: new(metav1.NewTime(at)), Replica: "job-worker-0",
		}
	}
	tooSlow := errors.New("too slow")
	followed := []progress.Pod{{UID: uid, Target: progress.Target{Address: "10.0.0.7:29499", Token: "secret"}}}
	final := view.Reading{
		Time: now.Add(-time.Minute), Status: status(now.Add(-62 * time.Second)), Silence: 5 * time.Second,
		Announced: time.Minute, IsFinal: true,
	}
	const message = `{"reports":3,"step":420,"sinceReportMilliseconds":2000,"sinceProgressMilliseconds":5000,` +
		`"announcedSilenceMilliseconds":60000}`
	for name, tc := range map[string]struct {
		pod          *corev1.Pod
		polled       map[types.UID]progress.Reading
		counted      bool
		want         map[types.UID]view.Reading
		wantFollowed []progress.Pod
	}{
		"the last reading of a running pod is used": {
			pod: pod("job-worker-0", running, reporting), polled: read(progress.Reading{Time: now, State: step}),
			want: one(view.Reading{
				Time: now, Status: status(now.Add(-2 * time.Second)), Silence: 5 * time.Second, Announced: time.Minute,
			}),
			wantFollowed: followed,
		},
		"a pod without reports has a reading without a status": {
			pod: pod("job-worker-0", running, reporting), polled: read(progress.Reading{Time: now}),
			want: one(view.Reading{Time: now}), wantFollowed: followed,
		},
		"a reading has the error of a later read": {
			pod:    pod("job-worker-0", running, reporting),
			polled: read(progress.Reading{Time: now, Err: tooSlow}),
			want:   one(view.Reading{Time: now, Problem: "too slow"}), wantFollowed: followed,
		},
		"the reading of a pod that could never be read has only the error": {
			pod:    pod("job-worker-0", running, reporting),
			polled: read(progress.Reading{Err: tooSlow}),
			want:   one(view.Reading{Problem: "too slow"}), wantFollowed: followed,
		},
		"a pod with an IPv6 address is read": {
			pod: pod("job-worker-0", running, reporting, onIPv6), want: map[types.UID]view.Reading{},
			wantFollowed: []progress.Pod{
				{UID: uid, Target: progress.Target{Address: "[fd00::7]:29499", Token: "secret"}},
			},
		},
		"the final report of a sidecar that has ended is in the pod": {
			pod: pod("job-worker-0", reporting, sidecarEnded(message)), want: one(final),
		},
		"the final report of a pod that is being deleted is in the pod": {
			pod: pod("job-worker-0", reporting, sidecarEnded(message), deleting), want: one(final),
		},
		"an unreadable final report is ignored": {
			pod: pod("job-worker-0", reporting, sidecarEnded("Segmentation fault")), want: map[types.UID]view.Reading{},
			wantFollowed: followed,
		},
		"the final report of a pod without the token is ignored": {
			pod: pod("job-worker-0", reporting, sidecarEnded(message), withoutToken), want: map[types.UID]view.Reading{},
		},
		"a pod without the token is not read": {
			pod: pod("job-worker-0", running, reporting, withoutToken), want: map[types.UID]view.Reading{},
		},
		"a pod without an address is not read": {
			pod: pod("job-worker-0", reporting, func(p *corev1.Pod) { p.Status.PodIP = "" }), want: map[types.UID]view.Reading{},
		},
		"a pod that is being deleted is not read": {
			pod: pod("job-worker-0", running, reporting, deleting), want: map[types.UID]view.Reading{},
		},
		"a supervisor keeps its last reading when its pod is deleted": {
			pod: pod("job-worker-0", running, counting, deleting), counted: true,
			want: one(view.Reading{Restarts: 2, LastRestarts: lastRestarts}), wantFollowed: []progress.Pod{ended},
		},
		"a supervisor keeps its last reading when its pod ends": {
			pod: pod("job-worker-0", exited(0), counting), counted: true,
			want: one(view.Reading{Restarts: 2, LastRestarts: lastRestarts}), wantFollowed: []progress.Pod{ended},
		},
		"the restarts that a supervisor has counted are read with the ID of the attempt": {
			pod: pod("job-worker-0", running, counting), counted: true,
			want: one(view.Reading{Restarts: 2, LastRestarts: lastRestarts}), wantFollowed: []progress.Pod{supervisor},
		},
		"a reading has the progress and the restarts": {
			pod: pod("job-worker-0", running, reporting, counting), polled: read(progress.Reading{Time: now, State: step}),
			counted: true,
			want: one(view.Reading{
				Time: now, Status: status(now.Add(-2 * time.Second)), Silence: 5 * time.Second, Announced: time.Minute,
				Restarts: 2, LastRestarts: lastRestarts,
			}),
			wantFollowed: append(slices.Clone(followed), supervisor),
		},
		"a supervisor that cannot be read does not hide the progress": {
			pod: pod("job-worker-0", running, reporting, counting), polled: read(progress.Reading{Time: now}),
			want: one(view.Reading{Time: now}), wantFollowed: append(slices.Clone(followed), supervisor),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			poller := &polled{readings: tc.polled}
			if tc.counted {
				poller.counted = &counted
			}
			r := &Reconciler[*testJob]{cluster: Cluster{Progress: poller}}
			diff(t, "readings", tc.want, r.readings(theJob, "job-uid", map[string]*corev1.Pod{tc.pod.Name: tc.pod}))
			diff(t, "pods that are read", tc.wantFollowed, poller.followed)
		})
	}
}

func TestObserveReadings(t *testing.T) {
	t.Parallel()
	seen := jobtest.Seeing(pod("job-worker-0", running, reporting, counting))
	reports := func() *jobtest.Builder { return oneWorker().Reporting(0, 0, "") }
	counts := oneWorker().CountingRestarts()
	finished := reports().Saw(0, pod("job-worker-0", exited(0)))
	deleted := reports()
	deleted.Deleting = true
	for name, tc := range map[string]struct {
		job *jobtest.Builder
		// wantFollowed is how many receivers and supervisors are read.
		wantFollowed int
		wantDue      time.Time
		wantForgot   []types.NamespacedName
		// wantRemembered reports whether the writes of progress of the job are remembered.
		wantRemembered bool
	}{
		"the pods of a job that reports are read": {job: reports(), wantFollowed: 2, wantDue: now, wantRemembered: true},
		"the pods of a job that counts restarts in place are read": {
			job: counts, wantFollowed: 2, wantDue: now, wantRemembered: true,
		},
		"a job that does not report is forgotten":  {job: oneWorker(), wantForgot: []types.NamespacedName{theJob}},
		"a finished job is forgotten":              {job: finished, wantForgot: []types.NamespacedName{theJob}},
		"a job that is being deleted is forgotten": {job: deleted, wantForgot: []types.NamespacedName{theJob}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			poller := &polled{}
			r := &Reconciler[*testJob]{
				cluster: Cluster{Progress: poller},
				options: Options{Clock: testingclock.NewFakePassiveClock(now), Memory: &Memory{}},
			}
			got := seen
			r.observeReadings(jobNamed("job"), &tc.job.Job, &got, now)
			diff(t, "pods that are read", tc.wantFollowed, len(poller.followed))
			diff(t, "due", tc.wantDue, got.ProgressDue)
			diff(t, "forgotten jobs", tc.wantForgot, poller.forgot)
			diff(t, "whether the job is remembered", tc.wantRemembered, r.options.Memory.progress.jobs.Of(theJob) != nil)
		})
	}
}

func jobNamed(name string) *testJob {
	return &testJob{ConfigMap: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}}
}

// podCreations is a client that can only create pods.
type podCreations struct{ creations }

func (*podCreations) Scheme() *runtime.Scheme { return clientgoscheme.Scheme }

// createPods creates the pods of a decision, and returns them.
func createPods(t *testing.T, d plan.Decision) []client.Object {
	t.Helper()
	api := &podCreations{}
	r := &Reconciler[*testJob]{
		cluster: Cluster{Client: api}, gvk: testKind, pods: fair.NewPool(podMemory),
		options: Options{Clock: testingclock.NewFakePassiveClock(now), Memory: &Memory{}},
	}
	for i := range d.Creates {
		if err := r.createPod(t.Context(), jobNamed("job"), &d.Creates[i]); err != nil {
			t.Fatal(err)
		}
	}
	return api.created
}

func TestEachPodHasItsOwnToken(t *testing.T) {
	t.Parallel()
	j := jobtest.NewJob(jobtest.Role("worker", 2)).Reporting(0, 0, "")
	j.Spec.FirstProcess = "Anywhere"
	j.Spec.Roles[0].Template.Annotations = map[string]string{batchv1beta1.AnnotationProgressToken: "mine"}
	tokens := map[string]bool{}
	for _, created := range createPods(t, j.Sees()) {
		token := created.GetAnnotations()[batchv1beta1.AnnotationProgressToken]
		if len(token) < 26 { // 128 bits
			t.Errorf("the token %q is too short", token)
		}
		tokens[token] = true
	}
	diff(t, "different tokens", 2, len(tokens))
}

func TestAPodThatDoesNotReportHasNoToken(t *testing.T) {
	t.Parallel()
	j := oneWorker()
	j.Spec.Roles[0].Template.Annotations = map[string]string{
		batchv1beta1.AnnotationProgressPort: "22", batchv1beta1.AnnotationProgressToken: "mine",
	}
	for _, created := range createPods(t, j.Sees()) {
		diff(t, "annotations", map[string]string{}, created.GetAnnotations(), cmpopts.EquateEmpty())
	}
}

// noObjects is a client of a cluster without objects.
type noObjects struct{ client.Client }

func (noObjects) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (noObjects) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// A job that does not exist anymore is forgotten.
func TestADeletedJobIsNotRead(t *testing.T) {
	t.Parallel()
	poller := &polled{}
	r, request := idleReconciler(1)
	r.cluster.Progress = poller
	r.cluster.Client = noObjects{}
	r.options.Memory.progress.due(request.NamespacedName, now, true)
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	diff(t, "forgotten jobs", []types.NamespacedName{request.NamespacedName}, poller.forgot)
	if r.options.Memory.progress.jobs.Of(request.NamespacedName) != nil {
		t.Error("the job is remembered")
	}
}

func TestProgressChangedEnqueuesTheJobAndNeverBlocks(t *testing.T) {
	t.Parallel()
	r := &Reconciler[*idle]{framework: ofIdle{}, progressed: make(chan ctrlevent.GenericEvent, progressEvents)}
	for range progressEvents + 1 {
		r.ProgressChanged(theJob)
	}
	diff(t, "waiting events", progressEvents, len(r.progressed))
	event := <-r.progressed
	diff(t, "job", theJob.String(), event.Object.GetNamespace()+"/"+event.Object.GetName())
}
