package admission_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/kueue"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/admission"
	"tensorstack.dev/jobs/common/plan/view"
)

// byWorkload labels a pod as admitted by the Workload.
func byWorkload(p *corev1.Pod) { p.Labels[batchv1beta1.LabelAdmittedBy] = "workload-uid" }

func seenWorkload(w *kueuev1beta2.Workload) admission.Workload {
	return admission.At(now, admission.Workload{Snapshot: view.Snapshot[*kueuev1beta2.Workload]{Object: w}, Queue: "lab"})
}

// requesting returns a job of two replicas. Each replica requests the given number of CPUs.
func requesting(cpus int64) *jobBuilder {
	worker := role("worker", 2)
	worker.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": *resource.NewQuantity(cpus, "")}
	return job(worker)
}

// prebuilt returns the snapshot of a Workload that somebody else has created for the job, as a live read returns it.
func prebuilt(w *kueuev1beta2.Workload) admission.Workload {
	w.Name = "before"
	view := seenWorkload(w)
	view.Live, view.Prebuilt = true, w.Name
	return view
}

// gaveBack changes the status of a Workload, so that it has given back the quota of one worker.
func gaveBack(w *kueuev1beta2.Workload) {
	w.Status.ReclaimablePods = []kueuev1beta2.ReclaimablePod{{Name: "worker", Count: 1}}
}

// done returns the pods of two replicas. The first one runs, and the second one has succeeded.
func done() []*corev1.Pod {
	return []*corev1.Pod{run()[0], pod("job-worker-1", byWorkload, onNode("a"), exited(0))}
}

// ofClass gives a Workload a WorkloadPriorityClass.
func ofClass(name string) func(*kueuev1beta2.Workload) {
	return func(w *kueuev1beta2.Workload) {
		w.Spec.Priority = new(int32(1))
		w.Spec.PriorityClassRef = &kueuev1beta2.PriorityClassRef{
			Group: "kueue.x-k8s.io", Kind: "WorkloadPriorityClass", Name: name,
		}
	}
}

// withClass returns the snapshot of a Workload whose job names a WorkloadPriorityClass with the priority 7.
func withClass(name string, w *kueuev1beta2.Workload) admission.Workload {
	seen := seenWorkload(w)
	class := &kueuev1beta2.Workload{}
	ofClass(name)(class)
	seen.Priority = kueue.Priority{Value: 7, Ref: class.Spec.PriorityClassRef}
	seen.PriorityClass = name
	return seen
}

// ready changes the status of a Workload to report that the pods are ready.
func ready(w *kueuev1beta2.Workload) {
	has("PodsReady", metav1.ConditionTrue, "Started", "all replicas run")(w)
	w.Status.Conditions[len(w.Status.Conditions)-1].ObservedGeneration = 1
}

// run returns the pods of two replicas that run.
func run() []*corev1.Pod {
	return []*corev1.Pod{
		pod("job-worker-0", byWorkload, onNode("a"), running), pod("job-worker-1", byWorkload, onNode("a"), running),
	}
}

// ran returns a job whose replicas run.
func ran() *jobBuilder {
	return job(role("worker", 2)).SawIn(withWorkload(workload(admittedFor(2)), run()...))
}

func TestPlanWorkload(t *testing.T) {
	t.Parallel()
	alone := func() *jobBuilder { return job(role("worker", 2)).Scope(batchv1beta1.RestartScopeReplica) }
	both := []string{created("job-worker-0", "0"), created("job-worker-1", "0")}
	fails := func() []*corev1.Pod {
		return []*corev1.Pod{run()[0], pod("job-worker-1", byWorkload, onNode("a"), exited(1))}
	}
	unknown := admission.Workload{Queue: "lab"}
	unknown.Unknown = true
	missing := admission.Workload{Queue: "lab"}
	missing.Problem = errNotInstalled
	waiting := seenWorkload(workload(has("QuotaReserved", metav1.ConditionFalse, "Pending", "")))
	waiting.Words = "the quota is used"
	for name, tc := range map[string]struct {
		job  *jobBuilder // nil means a new job
		view admission.Workload
		pods []*corev1.Pod

		// wantChange is the text of describeChange for the change of the Workload.
		wantChange  string
		wantCreates []string
		wantDeletes []string
		wantMessage string
		// wantCounts has the number of evictions and the number of restarts that count towards backoffLimit.
		wantCounts  string
		wantStarted bool
	}{
		"a new job creates its workload before its pods": {
			view: admission.Workload{Queue: "lab"}, wantChange: "Create",
			wantMessage: "workload job waits for Kueue in queue lab",
		},
		"a job waits in the words of Kueue": {view: waiting, wantMessage: "the quota is used"},
		"a job waits while the workload cannot be read": {
			view: unknown, wantMessage: "workload job cannot be read yet",
		},
		"a job waits until Kueue is installed": {view: missing, wantMessage: errNotInstalled.Error()},
		"a job does not use the workload of another owner": {
			view:        seenWorkload(workload(admittedFor(2), func(w *kueuev1beta2.Workload) { w.OwnerReferences = nil })),
			wantMessage: "the job needs workload job, but one exists that is not the job's",
		},
		"a workload that is not active needs help": {
			view:        seenWorkload(workload(func(w *kueuev1beta2.Workload) { w.Spec.Active = new(false) })),
			wantMessage: "workload job is not active: set its spec.active to true",
		},
		"a workload for other replicas is replaced while it has no quota": {
			view:       seenWorkload(workload(func(w *kueuev1beta2.Workload) { w.Spec.PodSets[0].Count = 7 })),
			wantChange: "Delete", wantMessage: "workload job is for other replicas, and is replaced",
		},
		"an admitted job starts and creates its pods": {
			view: seenWorkload(workload(admittedFor(2))), wantCreates: both, wantStarted: true,
			wantMessage: "job-worker-0 is being created",
		},
		"a job creates only the replicas that are admitted": {
			view: seenWorkload(workload(admittedFor(1))), wantCreates: both[:1], wantStarted: true,
			wantMessage: "Kueue has admitted 1 replica of type worker, and the job has 2: pause and resume the job to " +
				"request the admission of more",
		},
		"a job that runs with the replicas that are admitted is reported as ready": {
			job:  job(role("worker", 2)).SawIn(withWorkload(workload(admittedFor(1)), run()[:1]...)),
			view: seenWorkload(workload(admittedFor(1))), pods: run()[:1], wantStarted: true,
			wantChange: "Update PodsReady=True Started", wantMessage: "Kueue has admitted 1 replica of type worker",
		},
		"a job that runs is reported as ready": {
			job: ran(), view: seenWorkload(workload(admittedFor(2))), pods: run(), wantStarted: true,
			wantChange: "Update PodsReady=True Started", wantMessage: "all 2 replicas run or have ended",
		},
		"a job that is reported as ready changes nothing": {
			job: ran(), view: seenWorkload(workload(admittedFor(2), ready)), pods: run(), wantStarted: true,
			wantMessage: "all 2 replicas run or have ended",
		},
		"a job that runs goes on while the workload cannot be read": {
			job: ran(), view: unknown, pods: run(), wantStarted: true, wantMessage: "all 2 replicas run or have ended",
		},
		"a job that runs goes on after Kueue was removed": {
			job: ran(), view: missing, pods: run(), wantStarted: true, wantMessage: "all 2 replicas run or have ended",
		},
		"an eviction stops all replicas and counts for nothing": {
			job: ran(), view: seenWorkload(workload(admittedFor(2), evicted("Preempted"))), pods: run(),
			wantDeletes: []string{"job-worker-0", "job-worker-1"}, wantCounts: "1, 0",
			wantMessage: "job-worker-0 is being replaced",
		},
		"a failure that is seen together with an eviction counts": {
			job: ran(), view: seenWorkload(workload(admittedFor(2), evicted("Preempted"))), pods: fails(),
			wantDeletes: []string{"job-worker-0", "job-worker-1"}, wantCounts: "1, 1",
			wantMessage: "job-worker-0 is being replaced",
		},
		"an eviction also stops the pods of replicas that have ended, since they hold the quota": {
			job: alone().SawIn(withWorkload(workload(admittedFor(2)),
				run()[0], pod("job-worker-1", byWorkload, onNode("a"), exited(0)))),
			pods: []*corev1.Pod{pod("job-worker-1", byWorkload, onNode("a"), exited(0))},
			view: seenWorkload(workload(admittedFor(2), evicted("Preempted"))), wantDeletes: []string{"job-worker-1"},
			wantCounts: "1, 0", wantMessage: "workload job was evicted: another job needs the quota",
		},
		"a replica that is being replaced keeps its place among the admitted ones": {
			job:         alone().SawIn(withWorkload(workload(admittedFor(1)), run()[0])),
			view:        seenWorkload(workload(admittedFor(1))),
			pods:        []*corev1.Pod{pod("job-worker-0", byWorkload, running, deleting)},
			wantStarted: true, wantMessage: "job-worker-0 is being replaced",
		},
		"a job does not adopt a workload that is being deleted": {
			view: prebuilt(workload(func(w *kueuev1beta2.Workload) {
				w.OwnerReferences, w.DeletionTimestamp = nil, new(metav1.NewTime(now))
			})),
			wantMessage: "workload before is being deleted",
		},
		"a job whose workload is gone requests another one": {
			job: ran(), view: admission.Workload{Queue: "lab"}, pods: run(), wantStarted: true,
			wantChange: "Create", wantMessage: "all 2 replicas run or have ended",
		},
		"pods that another workload has admitted stop": {
			job: ran(), pods: run(), wantDeletes: []string{"job-worker-0", "job-worker-1"}, wantCounts: "1, 0",
			view: seenWorkload(workload(admittedFor(2), func(w *kueuev1beta2.Workload) {
				w.UID = "another"
			})),
			wantMessage: "job-worker-0 is being replaced",
		},
		"pods that nobody has admitted stop when the job gets its queue": {
			job: ran(), wantDeletes: []string{"job-worker-0", "job-worker-1"}, wantCounts: "1, 0",
			pods: []*corev1.Pod{pod("job-worker-0", onNode("a"), running), pod("job-worker-1", onNode("a"), running)},
			view: seenWorkload(workload(admittedFor(2))), wantMessage: "job-worker-0 is being replaced",
		},
		"a job waits until its prebuilt workload exists": {
			view:        admission.Workload{Prebuilt: "before"},
			wantMessage: "workload before, which was to be created for the job, does not exist",
		},
		"a job adopts its prebuilt workload": {
			view:       prebuilt(workload(admittedFor(2), func(w *kueuev1beta2.Workload) { w.OwnerReferences = nil })),
			wantChange: "Update TestJob/job of TestJob/job", wantMessage: "workload before waits for Kueue",
		},
		"a job does not adopt the prebuilt workload of another owner": {
			view:        prebuilt(workload(func(w *kueuev1beta2.Workload) { w.OwnerReferences[0].UID = "another" })),
			wantMessage: "the job needs workload before, but one exists that belongs to",
		},
		"a job runs by its prebuilt workload, whatever its queue is": {
			view:        prebuilt(workload(admittedFor(2), func(w *kueuev1beta2.Workload) { w.Spec.QueueName = "other" })),
			wantCreates: both, wantStarted: true, wantMessage: "",
		},
		"a prebuilt workload for other replicas is not replaced": {
			view:        prebuilt(workload(func(w *kueuev1beta2.Workload) { w.Spec.PodSets[0].Count = 3 })),
			wantMessage: "workload before, which was created for the job, is for other replicas",
		},
		"a job does not adopt a workload of several owners": {
			view: prebuilt(workload(func(w *kueuev1beta2.Workload) {
				w.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "a"}, {Kind: "Pod", Name: "b"}}
			})),
			wantMessage: "the job needs workload before, but one exists that is not the job's",
		},
		"a job does not adopt a workload that requests less": {
			job: requesting(2), wantMessage: "workload before, which was created for the job, is for other replicas",
			view: prebuilt(workload(admittedFor(2), func(w *kueuev1beta2.Workload) { w.OwnerReferences = nil })),
		},
		"a job does not run by a prebuilt workload that requests less": {
			job: requesting(2), view: prebuilt(workload(admittedFor(2))), wantStarted: true,
			wantMessage: "workload before, which was created for the job, is for other replicas",
		},
		"a job does not run by a prebuilt workload for fewer replicas": {
			job: job(role("worker", 4)), view: prebuilt(workload(admittedFor(2))), wantStarted: true,
			wantMessage: "workload before, which was created for the job, is for other replicas",
		},
		"a job stops without its prebuilt workload": {
			job: ran(), pods: run(), view: admission.Workload{Prebuilt: "before"}, wantCounts: "1, 0",
			wantDeletes: []string{"job-worker-0", "job-worker-1"}, wantMessage: "job-worker-0 is being replaced",
		},
		"a prebuilt workload that is finished is not replaced": {
			view:        prebuilt(workload(has("Finished", metav1.ConditionTrue, "Succeeded", ""))),
			wantMessage: "workload before, which was created for the job, is finished although the job is not",
		},
		"the admission of an evicted workload is kept while a pod is left": {
			job:  ran().SawIn(withWorkload(workload(admittedFor(2), evicted("Preempted")), run()...)),
			view: seenWorkload(workload(admittedFor(2), evicted("Preempted"))), pods: []*corev1.Pod{run()[1]},
			wantDeletes: []string{"job-worker-1"}, wantCounts: "1, 0",
			wantMessage: "workload job was evicted: another job needs the quota",
		},
		"the admission of an evicted workload is cleared when no pod is left": {
			job:        ran().SawIn(withWorkload(workload(admittedFor(2), evicted("Preempted")), run()...)),
			view:       seenWorkload(workload(admittedFor(2), evicted("Preempted"))),
			wantCounts: "1, 0", wantMessage: "workload job was evicted: another job needs the quota",
			wantChange: "Update Admitted=False NoReservation QuotaReserved=False Pending " +
				"Requeued=True Preempted without admission",
		},
		"a job that needs quota again that was given back stops before it creates a pod": {
			job:  ran().SawIn(withWorkload(workload(admittedFor(2)), done()...)),
			view: seenWorkload(workload(admittedFor(2), gaveBack)),
			pods: []*corev1.Pod{
				pod("job-worker-0", byWorkload, onNode("a"), exited(1)), pod("job-worker-1", byWorkload, onNode("a"), exited(0)),
			},
			wantDeletes: []string{"job-worker-0", "job-worker-1"}, wantCounts: "0, 1", wantStarted: true,
			wantChange: "Update Evicted=True QuotaGivenBack", wantMessage: "job-worker-0 is being replaced",
		},
		"a job goes on without a replica whose quota was given back": {
			job:  alone().SawIn(withWorkload(workload(admittedFor(2), gaveBack), done()...)),
			view: seenWorkload(workload(admittedFor(2), gaveBack)), pods: done(),
			wantChange: "Update PodsReady=True Started", wantMessage: "all 2 replicas run or have ended", wantStarted: true,
		},
		"the quota of a replica that never runs again is given back": {
			job: alone().SawIn(withWorkload(workload(admittedFor(2)), done()...)), view: seenWorkload(workload(admittedFor(2))),
			pods: done(), wantMessage: "all 2 replicas run or have ended", wantStarted: true,
			wantChange: "Update PodsReady=True Started reclaims 1",
		},
		"the quota of a replica of a collective is kept when it has succeeded": {
			job: ran(), view: seenWorkload(workload(admittedFor(2))), pods: done(), wantStarted: true,
			wantChange: "Update PodsReady=True Started", wantMessage: "all 2 replicas run or have ended",
		},
		"a workload that the job itself has evicted is requeued": {
			job:        ran().SawIn(withWorkload(workload(admittedFor(2), evicted("QuotaGivenBack")), run()...)),
			view:       seenWorkload(workload(admittedFor(2), evicted("QuotaGivenBack"), gaveBack)),
			wantCounts: "1, 0", wantMessage: "workload job was evicted: another job needs the quota",
			wantChange: "Update Admitted=False NoReservation QuotaReserved=False Pending " +
				"Requeued=True QuotaGivenBack without admission",
		},
		"a workload that waits gets the new priority class of its job": {
			view:       withClass("urgent", workload(ofClass("normal"))),
			wantChange: "Update priority 7 of WorkloadPriorityClass urgent", wantMessage: "workload job waits for Kueue",
		},
		"an admitted workload gets the new priority class of its job": {
			job: ran(), view: withClass("urgent", workload(admittedFor(2), ofClass("normal"), ready)), pods: run(),
			wantChange:  "Update priority 7 of WorkloadPriorityClass urgent",
			wantMessage: "all 2 replicas run or have ended", wantStarted: true,
		},
		"a workload without a class gets one while it waits": {
			view: withClass("urgent", workload()), wantChange: "Update priority 7 of WorkloadPriorityClass urgent",
			wantMessage: "workload job waits for Kueue",
		},
		"an admitted workload without a class gets none, since Kueue refuses it": {
			job: ran(), view: withClass("urgent", workload(admittedFor(2), ready)), pods: run(),
			wantMessage: "all 2 replicas run or have ended", wantStarted: true,
		},
		"a workload keeps its class if the job names none": {
			view: seenWorkload(workload(ofClass("normal"))), wantMessage: "workload job waits for Kueue",
		},
		"a workload that was not preempted is not requeued by the job": {
			job:        ran().SawIn(withWorkload(workload(admittedFor(2), evicted("Deactivated")), run()...)),
			view:       seenWorkload(workload(admittedFor(2), evicted("Deactivated"))),
			wantCounts: "1, 0", wantMessage: "workload job was evicted: another job needs the quota",
			wantChange: "Update Admitted=False NoReservation QuotaReserved=False Pending " +
				"Requeued=False Deactivated without admission",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := tc.job
			if j == nil {
				j = job(role("worker", 2))
			}
			seen := seeing(tc.pods...)
			seen.Admission = tc.view
			d := plan.Decide(j.Job, seen, now)
			diff(t, "change", tc.wantChange, describeChange(d.Admission))
			diff(t, "creations", tc.wantCreates, summarize(d).Creates)
			diff(t, "deletions", tc.wantDeletes, summarize(d).Deletes)
			waits := meta.FindStatusCondition(d.Status.Conditions, batchv1beta1.ConditionRunning)
			if !strings.Contains(waits.Message, tc.wantMessage) {
				t.Errorf("unexpected message %q, want %q", waits.Message, tc.wantMessage)
			}
			if tc.wantCounts == "" {
				tc.wantCounts = "0, 0"
			}
			counts := fmt.Sprintf("%d, %d", d.Status.Evictions, d.Status.BackoffCount)
			diff(t, "evictions and backoffCount", tc.wantCounts, counts)
			diff(t, "whether the job has started", tc.wantStarted, d.Status.StartTime != nil)
			for _, p := range podsToCreate(d) {
				diff(t, "pod set of a pod", "worker", p.Labels[kueuev1beta2.LabelPodSet])
			}
		})
	}
}

// withWorkload returns an observation with a Workload and pods.
func withWorkload(w *kueuev1beta2.Workload, pods ...*corev1.Pod) view.Observation {
	seen := seeing(pods...)
	seen.Admission = seenWorkload(w)
	return seen
}

// describeChange returns a text about a change of a Workload: its action, and the conditions, counts, labels or
// priority that it sets.
func describeChange(c view.Change) string {
	text := c.Action
	if after, ok := c.Wanted.(*kueuev1beta2.Workload); ok && c.Action == batchv1beta1.ActionUpdate && !c.OfStatus {
		if ref := after.Spec.PriorityClassRef; ref != nil {
			return fmt.Sprintf("%s priority %d of %s %s", text, *after.Spec.Priority, ref.Kind, ref.Name)
		}
		owner, labels := c.Wanted.GetOwnerReferences()[0], c.Wanted.GetLabels()
		return fmt.Sprintf("%s %s/%s of %s/%s", text, labels[batchv1beta1.LabelJobKind], labels[batchv1beta1.LabelJobName],
			owner.Kind, owner.Name)
	}
	if !c.OfStatus {
		return text
	}
	before, after := c.Seen.(*kueuev1beta2.Workload), c.Wanted.(*kueuev1beta2.Workload)
	for _, conditionType := range []string{"Admitted", "Evicted", "Finished", "PodsReady", "QuotaReserved", "Requeued"} {
		was := meta.FindStatusCondition(before.Status.Conditions, conditionType)
		is := meta.FindStatusCondition(after.Status.Conditions, conditionType)
		if is != nil && (was == nil || was.Status != is.Status || was.Reason != is.Reason) {
			text += fmt.Sprintf(" %s=%s %s", conditionType, is.Status, is.Reason)
		}
	}
	for i, r := range after.Status.ReclaimablePods {
		if i >= len(before.Status.ReclaimablePods) || r != before.Status.ReclaimablePods[i] {
			text += fmt.Sprintf(" reclaims %d", r.Count)
		}
	}
	if before.Status.Admission != nil && after.Status.Admission == nil {
		text += " without admission"
	}
	return text
}
