package plan_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
)

const (
	notify  = batchv1beta1.ProgressPolicyNotify
	restart = batchv1beta1.ProgressPolicyRestart
)

// runningPods returns the pods of a running job of two workers.
func runningPods() []*corev1.Pod {
	return []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
}

// reports returns a job of two workers that has run for an hour and reports its progress. The deadlines are in seconds,
// and 0 means none.
func reports(progress, startup int64, policy batchv1beta1.ProgressPolicy) *jobBuilder {
	return job(role("worker", 2)).Reporting(progress, startup, policy).Saw(time.Hour, runningPods()...)
}

// withProgress sets the progress in the status of a job to the report of a reading.
func withProgress(j *jobBuilder, r view.Reading) *jobBuilder {
	j.Status.Progress = r.Status
	return j
}

// changed returns the reading with a changed report.
func changed(r view.Reading, change func(*batchv1beta1.ProgressStatus)) view.Reading {
	r.Status = r.Status.DeepCopy()
	change(r.Status)
	return r
}

func TestProgressInTheStatus(t *testing.T) {
	t.Parallel()
	const second = time.Second
	step42 := step(420, second)
	later := func(d time.Duration) view.Reading {
		return changed(step42, func(p *batchv1beta1.ProgressStatus) { *p.LastReportTime = ago(second - d) })
	}
	// due returns the observation, in which the next write for progress alone is due after the given time.
	due := func(after time.Duration, seen view.Observation) view.Observation {
		seen.ProgressDue = now.Add(after)
		return seen
	}
	estimated := changed(step42, func(p *batchv1beta1.ProgressStatus) {
		p.EstimatedCompletionTime = new(ago(-time.Hour))
	})
	leader := readings{"job-worker-0": step42}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen view.Observation
		// want is the progress in the status. Nil means none.
		want *batchv1beta1.ProgressStatus
		// requeueIn is the time from now until the job is requeued. 0 means no requeue.
		requeueIn time.Duration
	}{
		"the first report is shown immediately": {
			job: reports(0, 0, ""), seen: reading(leader, runningPods()...), want: step42.Status, requeueIn: 30 * second,
		},
		"a report is shown when the next write is due": {
			job:  withProgress(reports(0, 0, ""), step(410, time.Minute)),
			seen: due(0, reading(leader, runningPods()...)), want: step42.Status, requeueIn: 30 * second,
		},
		"a report waits until the next write is due": {
			job:  withProgress(reports(0, 0, ""), step(410, time.Minute)),
			seen: due(9*second, reading(leader, runningPods()...)), want: step(410, time.Minute).Status, requeueIn: 9 * second,
		},
		"the first report waits if many jobs report": {
			job: reports(0, 0, ""), seen: due(9*second, reading(leader, runningPods()...)), requeueIn: 9 * second,
		},
		"an unchanged report leaves the status as it is": {
			job: withProgress(reports(0, 0, ""), step42), seen: reading(leader, runningPods()...),
			want: step42.Status, requeueIn: 30 * second,
		},
		"the job is requeued after an unchanged report when the next write is due": {
			job: withProgress(reports(0, 0, ""), step42), seen: due(40*second, reading(leader, runningPods()...)),
			want: step42.Status, requeueIn: 40 * second,
		},
		"the job is not requeued early after an unchanged report": {
			job: withProgress(reports(0, 0, ""), step42), seen: due(9*second, reading(leader, runningPods()...)),
			want: step42.Status, requeueIn: 30 * second,
		},
		"a job that only counts restarts in place shows no progress": {
			job:  job(role("worker", 2)).CountingRestarts().Saw(time.Hour, runningPods()...),
			seen: reading(leader, runningPods()...), requeueIn: 30 * second,
		},
		"a report whose time differs by 2 seconds is the same report": {
			job:  withProgress(reports(0, 0, ""), step42),
			seen: reading(readings{"job-worker-0": later(2 * second)}, runningPods()...), want: step42.Status,
			requeueIn: 30 * second,
		},
		"a report whose time is 2 seconds earlier is the same report": {
			job:  withProgress(reports(0, 0, ""), step42),
			seen: reading(readings{"job-worker-0": later(-2 * second)}, runningPods()...), want: step42.Status,
			requeueIn: 30 * second,
		},
		"a report that only its time distinguishes is another report": {
			job:  withProgress(reports(0, 0, ""), step42),
			seen: reading(readings{"job-worker-0": later(3 * second)}, runningPods()...), want: later(3 * second).Status,
			requeueIn: 30 * second,
		},
		"another estimate of the completion alone is the same report": {
			job:  withProgress(reports(0, 0, ""), step42),
			seen: reading(readings{"job-worker-0": estimated}, runningPods()...),
			want: step42.Status, requeueIn: 30 * second,
		},
		"the estimate of the completion stays while the job runs": {
			job: withProgress(reports(0, 0, ""), estimated), seen: reading(leader, runningPods()...),
			want: estimated.Status, requeueIn: 30 * second,
		},
		"the estimate that an earlier version left in a finished job stays": {
			job: withProgress(reports(0, 0, "").
				Saw(0, pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0))), estimated),
			seen: seeing(), want: estimated.Status,
		},
		"a report while the job awaits the reports of a failure waits until the next write is due": {
			job:       reports(0, 0, "").Window(time.Minute),
			seen:      due(9*second, reading(leader, pod("job-worker-0", running), pod("job-worker-1", exited(1)))),
			requeueIn: 9 * second,
		},
		"another metric is another report": {
			job: withProgress(reports(0, 0, ""), changed(step42, func(p *batchv1beta1.ProgressStatus) {
				p.Metrics = []batchv1beta1.ProgressMetric{{Name: "loss", Value: "0.3"}}
			})),
			seen: reading(leader, runningPods()...), want: step42.Status, requeueIn: 30 * second,
		},
		"a report without a time is another report": {
			job: withProgress(reports(0, 0, ""), step42),
			seen: reading(readings{"job-worker-0": changed(step42, func(p *batchv1beta1.ProgressStatus) {
				p.LastReportTime = nil
			})}, runningPods()...),
			want:      changed(step42, func(p *batchv1beta1.ProgressStatus) { p.LastReportTime = nil }).Status,
			requeueIn: 30 * second,
		},
		"a stall shows the last report although no write is due": {
			job:  withProgress(reports(600, 0, notify), step(410, 20*time.Minute)),
			seen: due(9*second, reading(readings{"job-worker-0": step(420, 10*time.Minute)}, runningPods()...)),
			want: step(420, 10*time.Minute).Status, requeueIn: 30 * second,
		},
		"a recorded report without a time is replaced": {
			job: withProgress(reports(0, 0, ""),
				changed(step42, func(p *batchv1beta1.ProgressStatus) { p.LastReportTime = nil })),
			seen: reading(leader, runningPods()...), want: step42.Status, requeueIn: 30 * second,
		},
		"of two replicas, the one that made progress last is shown": {
			job: reports(0, 0, ""),
			seen: reading(readings{
				"job-worker-0": step(900, time.Minute), "job-worker-1": step42,
			}, runningPods()...),
			want: step42.Status, requeueIn: 30 * second,
		},
		"the replica that made progress last is shown although it was read earlier": {
			job: reports(0, 0, ""),
			seen: reading(readings{
				"job-worker-0": {Time: ago(10 * second).Time, Silence: 10 * second, Status: step42.Status},
				"job-worker-1": step(900, time.Minute),
			}, runningPods()...),
			want: step42.Status, requeueIn: 30 * second,
		},
		"a replica that has reported nothing is not shown": {
			job:  reports(0, 0, ""),
			seen: reading(readings{"job-worker-0": noReport(0), "job-worker-1": step42}, runningPods()...),
			want: step42.Status, requeueIn: 30 * second,
		},
		"the progress stays while no pod could be read": {
			job: withProgress(reports(0, 0, ""), step42), seen: seeing(runningPods()...), want: step42.Status,
			requeueIn: 30 * second,
		},
		"a pod of another attempt is ignored": {
			job: reports(0, 0, "").Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", exited(1))),
			seen: reading(readings{"job-worker-0": step42}, pod("job-worker-0", running),
				pod("job-worker-1", running, again(1))),
		},
		"a reading of an unknown pod is ignored": {
			job: reports(0, 0, ""),
			seen: view.Observation{
				Pods: seeing(runningPods()...).Pods, HasService: true,
				Readings: map[types.UID]view.Reading{"former-uid": step42},
			},
			requeueIn: 30 * second,
		},
		"a restart of all replicas shows the last report although no write is due": {
			job:  reports(0, 0, ""),
			seen: due(9*second, reading(leader, pod("job-worker-0", running), pod("job-worker-1", exited(1)))),
			want: step42.Status,
		},
		"a restart of one replica shows the last report although no write is due": {
			job:  reports(0, 0, "").Scope(scopeReplica),
			seen: due(9*second, reading(leader, pod("job-worker-0", running), pod("job-worker-1", exited(1)))),
			want: step42.Status,
		},
		"a pause shows the last report although no write is due": {
			job:  reports(0, 0, "").Paused(true),
			seen: due(9*second, reading(leader, runningPods()...)), want: step42.Status,
		},
		"a pause removes the estimate of the completion": {
			job:  withProgress(reports(0, 0, "").Paused(true), estimated),
			seen: seeing(runningPods()...), want: step42.Status,
		},
		"the decision about the end shows the last report although no write is due": {
			job:  reports(0, 0, "").GivePeers(time.Minute),
			seen: due(9*second, reading(leader, pod("job-worker-0", exited(0)), pod("job-worker-1", running))),
			want: step42.Status, requeueIn: time.Minute,
		},
		"the end of the last pod shows the last report of its sidecar": {
			job: reports(0, 0, "").GivePeers(time.Minute).
				Saw(0, pod("job-worker-0", exited(0)), pod("job-worker-1", running)),
			seen: due(9*second, reading(leader, pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0)))),
			want: step42.Status,
		},
		"a report after the decision about the end waits until the next write is due": {
			job: reports(0, 0, "").GivePeers(time.Minute).
				Saw(0, pod("job-worker-0", exited(0)), pod("job-worker-1", running)),
			seen:      due(9*second, reading(leader, pod("job-worker-0", exited(0)), pod("job-worker-1", running))),
			requeueIn: time.Minute,
		},
		"a job that does not report is not requeued": {
			job: job(role("worker", 2)).Saw(time.Hour, runningPods()...), seen: reading(leader, runningPods()...),
		},
		"a job that reports is not requeued before it runs": {
			job: job(role("worker", 2)).Reporting(0, 0, ""), seen: seeing(pod("job-worker-0"), pod("job-worker-1")),
		},
		"a finished job keeps its progress": {
			job:  withProgress(reports(0, 0, "").Saw(0, pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0))), step42),
			seen: reading(readings{"job-worker-0": step(430, 0)}, pod("job-worker-0", exited(0))), want: step42.Status,
		},
		"a job that is being deleted keeps its progress": {
			job: withProgress(deletedJob(reports(0, 0, "")), step42), want: step42.Status,
			seen: reading(readings{"job-worker-0": step(430, 0)}, runningPods()...),
		},
		"a job that runs in another cluster ignores readings": {
			job: managedBy(batchv1beta1.ManagedByMultiKueue, reports(0, 0, "")), seen: reading(leader, runningPods()...),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.DecideAt(now, tc.seen)
			diff(t, "progress", tc.want, d.Status.Progress)
			diff(t, "requeue delay", tc.requeueIn, summarize(d).RequeueIn)
		})
	}
}

// The readings are a map, so their order changes from call to call. The result must not depend on the order.
func TestHasNews(t *testing.T) {
	t.Parallel()
	older, newer := step(410, time.Minute), step(420, time.Second)
	for name, tc := range map[string]struct {
		shown    *batchv1beta1.ProgressStatus
		readings []view.Reading
		want     bool
	}{
		"a job without readings has no news":              {},
		"a job whose pods have reported nothing has none": {readings: []view.Reading{noReport(0)}},
		"the first report is news":                        {readings: []view.Reading{newer}, want: true},
		"a report that is shown is no news":               {shown: newer.Status, readings: []view.Reading{newer}},
		"the last report is news although an earlier one is shown": {
			shown: older.Status, readings: []view.Reading{older, newer}, want: true,
		},
		"an earlier report is no news": {shown: newer.Status, readings: []view.Reading{older, newer}},
		"restarts in place are news":   {readings: []view.Reading{{Restarts: 1}}, want: true},
		"a report is news although another pod has reported nothing": {
			readings: []view.Reading{noReport(0), newer}, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := map[types.UID]view.Reading{}
			for i, r := range tc.readings {
				read[types.UID(fmt.Sprint(i))] = r
			}
			for range 64 {
				if got := view.HasNews(batchv1beta1.JobStatus{Progress: tc.shown}, read); got != tc.want {
					t.Fatalf("HasNews is %t, want %t", got, tc.want)
				}
			}
		})
	}
}

// deletedJob returns the job while it is being deleted.
func deletedJob(j *jobBuilder) *jobBuilder {
	j.Deleting = true
	return j
}

// If nothing about a job changes, its status is not written, whether the job reports progress or not.
func TestAnUnchangedReportWritesNoStatus(t *testing.T) {
	t.Parallel()
	seen := reading(readings{"job-worker-0": step(420, time.Second)}, runningPods()...)
	for name, j := range map[string]*jobBuilder{
		"a job that has shown the report writes no status": reports(600, 600, notify).SawIn(seen),
		"a job that does not report writes no status":      job(role("worker", 2)).Saw(time.Hour, runningPods()...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := j.DecideAt(now, seen)
			if plan.ChangesStatus(j.Job, d) || d.NeedsLiveRead || d.ChangesObjects() {
				t.Errorf("the decision changes the status, changes objects or needs a live read: %+v", d)
			}
		})
	}
}

// StatusDelay does not delay a write that reports progress: package decide has already delayed the progress until the
// next such write was due.
func TestProgressIsWrittenWithoutDelay(t *testing.T) {
	t.Parallel()
	j := reports(0, 0, "")
	d := j.DecideAt(now, reading(readings{"job-worker-0": step(420, time.Second)}, runningPods()...))
	diff(t, "delay", time.Duration(0), plan.StatusDelay(j.Job, d, time.Minute))
}

// If a member of the job can report progress, its pod gets the receiver as a sidecar.
func TestPodsThatCanReportHaveTheSidecar(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first framework.FirstProcess
		on    bool
		want  map[string]bool
	}{
		"a job that does not report has no sidecars": {want: map[string]bool{"job-worker-0": false, "job-worker-1": false}},
		"only the leader has a sidecar": {
			on: true, want: map[string]bool{"job-worker-0": true, "job-worker-1": false},
		},
		"all members have a sidecar if each can run the first process": {
			on: true, first: framework.FirstProcessAnywhere, want: map[string]bool{"job-worker-0": true, "job-worker-1": true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 2))
			j.Spec.ReportsProgress, j.Spec.FirstProcess = tc.on, tc.first
			// A template must not choose the port to which the controller connects.
			j.Spec.Roles[0].Template.Annotations = map[string]string{
				batchv1beta1.AnnotationProgressPort: "22", batchv1beta1.AnnotationProgressToken: "mine",
			}
			got := map[string]bool{}
			for _, p := range podsToCreate(j.Sees()) {
				init := p.Spec.InitContainers
				got[p.Name] = len(init) > 0 && init[len(init)-1].Name == framework.ProgressContainer
				wantPort := map[bool]string{true: "29499"}[got[p.Name]]
				diff(t, "port", wantPort, p.Annotations[batchv1beta1.AnnotationProgressPort])
				diff(t, "token", "", p.Annotations[batchv1beta1.AnnotationProgressToken])
			}
			diff(t, "sidecars", tc.want, got)
		})
	}
}
