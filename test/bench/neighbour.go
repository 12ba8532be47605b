package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/test/simulated"
)

// neighbour measures how soon a user who creates one job at a time in one namespace gets the pods of each job, while
// many jobs are created in another namespace.
func neighbour(ctx context.Context, b *bench) error {
	const busyNamespace, quietNamespace = "busy", "quiet"
	return b.start(ctx, simulated.None, func(ctx context.Context, c *cluster) error {
		busy, quiet := work{namespace: busyNamespace, replicas: replicas}, work{namespace: quietNamespace, replicas: replicas}
		for _, w := range []work{busy, quiet} {
			if err := c.namespace(ctx, w.namespace); err != nil {
				return err
			}
		}
		if err := ours.start(ctx, c); err != nil {
			return err
		}
		allCreated, err := c.created(ctx, busy, b.scale.jobs*replicas)
		if err != nil {
			return err
		}
		var took []time.Duration
		group, groupCtx := errgroup.WithContext(ctx)
		group.Go(func() error {
			create := func(ctx context.Context, i int) error { return ours.create(ctx, c, busy, i) }
			return c.inParallel(groupCtx, b.scale.jobs, create)
		})
		group.Go(func() (err error) {
			took, err = c.oneAfterTheOther(groupCtx, quiet, allCreated)
			return err
		})
		if err := group.Wait(); err != nil {
			return err
		}
		slices.Sort(took)
		b.record("neighbour-jobs", float64(len(took)))
		b.record("neighbour-p50", took[len(took)/2].Seconds())
		b.record("neighbour-p99", took[len(took)*99/100].Seconds())
		b.record("neighbour-max", took[len(took)-1].Seconds())
		return nil
	})
}

// created returns a channel that is closed when n pods of the namespace have been created.
func (c *cluster) created(ctx context.Context, w work, n int) (<-chan struct{}, error) {
	all := make(chan struct{})
	count := 0 // needs no lock, because follow never calls this function concurrently
	return all, c.follow(ctx, &corev1.Pod{}, labels.Everything(), func(before, after any) {
		if pod, ok := after.(*corev1.Pod); !ok || before != nil || pod.Namespace != w.namespace {
			return
		}
		if count++; count == n {
			close(all)
		}
	})
}

// oneAfterTheOther creates a job, and deletes the job when all its pods are created. It does so again and again,
// until the channel is closed. For each job, it returns the time from the creation of the job to the creation of its
// last pod.
func (c *cluster) oneAfterTheOther(ctx context.Context, w work, closed <-chan struct{}) ([]time.Duration, error) {
	var began []time.Time
	for done := false; !done; {
		job := w.trainingJob(len(began))
		began = append(began, time.Now())
		if err := c.Client.Create(ctx, job); err != nil {
			return nil, err
		}
		err := c.eventually(ctx, "the pods of "+job.Name+" are created", func(ctx context.Context) (bool, error) {
			list := &corev1.PodList{}
			err := c.Client.List(ctx, list, client.InNamespace(w.namespace))
			ofOthers := func(pod corev1.Pod) bool { return !strings.HasPrefix(pod.Name, job.Name+"-") }
			return len(slices.DeleteFunc(list.Items, ofOthers)) == int(w.replicas), err
		})
		if err != nil {
			return nil, err
		}
		if err := c.Client.Delete(ctx, job); err != nil {
			return nil, err
		}
		select {
		case <-closed:
			done = true
		default:
		}
	}
	createsPod := func(x write) bool { return x.createsPod() && x.ObjectRef.Namespace == w.namespace }
	pods, err := c.writes.selected(began[0], createsPod)
	if err != nil {
		return nil, err
	}
	if want := len(began) * int(w.replicas); len(pods) != want {
		return nil, fmt.Errorf("%d pods were created in namespace %s, want %d", len(pods), w.namespace, want)
	}
	took := make([]time.Duration, len(began))
	for i, at := range began {
		for _, pod := range pods {
			if strings.HasPrefix(pod.ObjectRef.Name, w.name(i)+"-") {
				took[i] = max(took[i], pod.Done.Sub(at))
			}
		}
	}
	return took, nil
}
