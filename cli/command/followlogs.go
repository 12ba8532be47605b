package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/printable"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// followed is the newest state of a job and its pods.
type followed struct {
	mutex sync.Mutex
	// job is nil if the job is gone.
	job *jobs.Job
	// pods is nil until the pods are listed.
	pods map[string]client.Object
	// changed is a channel. When the state changes, it is closed and a new channel replaces it.
	changed chan struct{}
}

// set calls the function change, which changes the state, and then notifies all callers of wait.
func (f *followed) set(change func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// wait waits until the function matches returns true, or until the context ends. It calls matches with the lock held.
func (f *followed) wait(ctx context.Context, matches func() bool) error {
	for {
		f.mutex.Lock()
		matched, changed := matches(), f.changed
		f.mutex.Unlock()
		if matched {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// errAllPrinted is the cause with which followLogs cancels its watch of the pods when all output is printed.
var errAllPrinted = errors.New("all output is printed")

// followLogs prints the output of replicas until the job ends. After a restart, it continues with the next pod of the
// replica.
func (e *environment) followLogs(ctx context.Context, c *cluster, job jobs.Job, reader *logReader, o logOptions) error {
	outer := ctx
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	state := &followed{job: &job, changed: make(chan struct{})}
	var watch, printers sync.WaitGroup
	watch.Go(func() {
		stop(c.observe(ctx, &corev1.PodList{}, func(objects map[string]client.Object) (bool, error) {
			state.set(func() { state.pods = maps.Clone(objects) })
			return false, nil
		}, podsOf(job)...))
	})
	narrator := narrate(e.ErrOut, "")
	defer narrator.end()
	out := o.writer(e.Out)
	started := map[string]bool{}
	var limited sync.Once
	err := c.observeJob(ctx, job, func(now *jobs.Job) (bool, error) {
		state.set(func() { state.job = now })
		for now != nil {
			next, isLimited := o.notStarted(*now, started)
			if isLimited {
				limited.Do(func() {
					_, _ = fmt.Fprintf(e.ErrOut, "%s has more than %d replicas, and the output of the others is not "+
						"printed: --max-log-requests raises the limit\n", job.Ref(), o.maxStreams)
				})
			}
			if next == nil {
				break
			}
			started[next.Name] = true
			printers.Go(func() {
				if err := e.followReplica(ctx, state, job, *next, reader, out, narrator, o); err != nil {
					stop(err)
				}
			})
		}
		return now == nil || now.JobStatus().Finished(), nil
	})
	if err != nil {
		stop(err)
	}
	printers.Wait()
	stop(errAllPrinted)
	watch.Wait()
	switch cause := context.Cause(ctx); {
	case outer.Err() != nil:
		return failure{error: fmt.Errorf("interrupted: %s goes on", job.Ref()), code: exitInterrupted}
	case !errors.Is(cause, errAllPrinted):
		return cause
	case state.job == nil:
		return fmt.Errorf("%s was deleted", job.Ref())
	}
	if err := state.job.End(); errors.Is(err, jobs.ErrFailed) {
		return failure{error: err, code: exitJobFailed}
	}
	return nil
}

// notStarted returns a replica whose output is not followed yet, or nil. With --all, this can be a replica that an
// elastic job has just added. isLimited reports whether notStarted returns nil only because of --max-log-requests.
func (o logOptions) notStarted(job jobs.Job, started map[string]bool) (next *jobs.Replica, isLimited bool) {
	if !o.all {
		replicas, err := o.selected(job)
		if err != nil || len(started) > 0 {
			return nil, false
		}
		return &replicas[0], false
	}
	followed := 0
	for _, replica := range job.Replicas() {
		switch {
		case started[replica.Name]:
			followed++
		case next == nil:
			next = &replica
		}
	}
	if next != nil && followed >= o.maxStreams {
		return nil, true
	}
	return next, false
}

// followReplica prints the output of the pods of a replica, one after the other.
func (e *environment) followReplica(
	ctx context.Context, state *followed, job jobs.Job, replica jobs.Replica, reader *logReader, out *lockedWriter,
	narrator *narrator, o logOptions,
) error {
	container := cmp.Or(o.container, replica.MainContainer)
	write := o.writeTo(out, job, replica)
	var last types.UID
	for {
		var pod *corev1.Pod
		waits := false
		err := state.wait(ctx, func() bool {
			if state.pods == nil {
				return false
			}
			pod, _ = state.pods[replica.Name].(*corev1.Pod)
			if pod != nil && pod.UID != last && metav1.IsControlledBy(pod, job) && waitingState(pod, container) == "" {
				return true
			}
			pod = nil
			if state.job == nil || state.job.JobStatus().Finished() {
				return true
			}
			switch _, err := state.job.ReplicaNamed(replica.Name); {
			case err == nil || !o.all:
				narrator.tell(whyNoOutput(*state.job, replica, last != ""))
				waits = true
			case waits: // an elastic job has removed the replica: narrate no wait until the job adds it again
				narrator.tell("")
				waits = false
			}
			return false
		})
		switch {
		case err != nil:
			return err
		case pod == nil && last == "" && state.job != nil:
			return e.printFailure(*state.job, replica, logOptions{all: true})
		case pod == nil:
			return nil
		case last != "":
			_, _ = fmt.Fprintf(e.ErrOut, "%s was restarted: attempt %s\n", replica.Name,
				printable.Text(pod.Labels[batchv1beta1.LabelAttempt]))
		}
		narrator.tell("")
		streamed, stop := context.WithCancelCause(ctx)
		go func() {
			err := state.wait(streamed, func() bool { return state.outlives(pod) })
			if err == nil && !reader.hasEnded(streamed, pod, container) {
				stop(errOutlives)
			}
		}()
		err = cmp.Or(out.endLine(), reader.print(streamed, pod, container, write, last == ""), out.end())
		stop(nil)
		if err != nil && !errors.Is(err, errOutlives) {
			return err
		}
		last = pod.UID
	}
}

// errOutlives is the cause with which followReplica stops following a pod that runs on after its job has ended.
var errOutlives = errors.New("the pod runs on after its job has ended")

// outlives reports whether a pod can run on although its job has ended: the job was deleted without its pods, or the
// cleanUpPolicy of the job is None.
func (f *followed) outlives(pod *corev1.Pod) bool {
	if f.job == nil {
		now := f.pods[pod.Name]
		return now != nil && metav1.GetControllerOf(now) == nil
	}
	return f.job.JobStatus().Finished() && f.job.Spec().RunPolicy.CleanUpPolicy == batchv1beta1.CleanUpPolicyNone
}

// whyNoOutput returns a description of the pod that followReplica waits for: the first or the next pod of a replica.
// If the job has the condition Running, the description includes the reason and the message of this condition.
func whyNoOutput(job jobs.Job, replica jobs.Replica, hadPod bool) string {
	text := "the pod of " + replica.Name
	if hadPod {
		text = "the next pod of " + replica.Name
	}
	if running := meta.FindStatusCondition(job.JobStatus().Conditions, batchv1beta1.ConditionRunning); running != nil {
		text += " (" + running.Reason + ": " + running.Message + ")"
	}
	return text
}
