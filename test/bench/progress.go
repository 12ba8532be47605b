package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/progress"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	"tensorstack.dev/jobs/test/simulated"
)

// reports measures the cost of jobs that report progress all the time. The benchmark plays their kubelets and their
// sidecars: each pod gets a loopback address, where the benchmark answers the requests of the controller.
func reports(ctx context.Context, b *bench) error {
	return b.start(ctx, simulated.None, func(ctx context.Context, c *cluster) error {
		if err := ours.start(ctx, c); err != nil {
			return err
		}
		w := work{replicas: 1, played: true, reports: true}
		sidecars, err := c.startReporting(ctx, w, b.scale.reportingJobs)
		if err != nil {
			return err
		}
		defer sidecars.close()
		if err := c.eventually(ctx, "all jobs show their first report", func(ctx context.Context) (bool, error) {
			return c.show(ctx, w, b.scale.reportingJobs)
		}); err != nil {
			return err
		}
		return c.measureReports(ctx)
	})
}

// measureReports measures the controller while jobs report.
func (c *cluster) measureReports(ctx context.Context) error {
	began := time.Now()
	before, err := c.Usage(pytorchController)
	if err != nil {
		return err
	}
	scale := c.bench.scale
	c.bench.progress.Printf("%d jobs report progress; measuring for %s", scale.reportingJobs, scale.reporting)
	select {
	case <-time.After(c.bench.scale.reporting):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := c.Usage(pytorchController)
	if err != nil {
		return err
	}
	seconds := time.Since(began).Seconds()
	writes, err := c.writes.selected(began, func(w write) bool { return w.of(pytorchController) && !w.elects() })
	if err != nil {
		return err
	}
	last, frequent := map[string]time.Time{}, 0.0
	for _, w := range writes {
		job := w.ObjectRef.Namespace + "/" + w.ObjectRef.Name
		if before, ok := last[job]; ok && w.Begun.Sub(before) < view.ProgressInterval {
			frequent++
		}
		last[job] = w.Begun.Time
	}
	c.bench.progress.Printf("%d writes for %d jobs in %.0f s", len(writes), len(last), seconds)
	c.bench.record("progress-cpu", (after.CPU-before.CPU).Seconds()/seconds)
	c.bench.record("progress-memory", float64(after.PeakResident)/(1<<20))
	c.bench.record("progress-writes", float64(len(writes))/seconds)
	c.bench.record("progress-frequent-writes", frequent)
	return nil
}

// sidecars is a server that answers the controller on behalf of the sidecars of all pods.
type sidecars struct {
	server *http.Server
	// handlers maps the address of each pod to the receiver of that pod.
	handlers map[netip.Addr]http.Handler
}

// startReporting creates the jobs, plays their kubelets, and returns the server that plays their sidecars. Each
// training does one step per second.
func (c *cluster) startReporting(ctx context.Context, w work, jobs int) (*sidecars, error) {
	for i := 0; i < jobs; i += jobsPerNamespace {
		if err := c.namespace(ctx, w.of(i).namespace); err != nil {
			return nil, err
		}
	}
	if err := c.inParallel(ctx, jobs,
		func(ctx context.Context, i int) error { return ours.create(ctx, c, w.of(i), i) }); err != nil {
		return nil, err
	}
	s := &sidecars{handlers: map[netip.Addr]http.Handler{}}
	addresses := make([]netip.Addr, jobs)
	address := netip.AddrFrom4([4]byte{127, 1, 0, 1})
	for i := range addresses {
		addresses[i], address = address, address.Next()
	}
	pods := map[string]string{} // maps namespace/name of each pod to its token
	for i := 0; i < jobs; i += jobsPerNamespace {
		namespace := w.of(i).namespace
		if err := c.podsAre(ctx, namespace, corev1.PodPending, min(jobsPerNamespace, jobs-i)); err != nil {
			return nil, err
		}
		list, err := c.pods(ctx, namespace, corev1.PodPending)
		if err != nil {
			return nil, err
		}
		for _, pod := range list {
			pods[pod.Namespace+"/"+pod.Name] = pod.Annotations[batchv1beta1.AnnotationProgressToken]
		}
	}
	for i, address := range addresses {
		token := pods[w.of(i).namespace+"/"+w.pod(i, 0)]
		s.handlers[address] = progress.Handler(token, newTraining().state)
	}
	listener, err := net.Listen("tcp4", ":"+strconv.Itoa(framework.ProgressPort)) //nolint:noctx // it ends with the server
	if err != nil {
		return nil, err
	}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Second}
	go func() { _ = s.server.Serve(listener) }()
	return s, c.inParallel(ctx, jobs, func(ctx context.Context, i int) error {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = w.of(i).namespace, w.pod(i, 0)
		patch := fmt.Appendf(nil, `{"status":{"phase":"Running","podIP":%[1]q,"podIPs":[{"ip":%[1]q}],"containerStatuses":`+
			`[{"name":"pytorch","image":"none","imageID":"","ready":true,"restartCount":0,"state":{"running":{}}}]}}`,
			addresses[i])
		return c.Client.Status().Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch))
	})
}

// show reports whether all jobs have progress in their statuses.
func (c *cluster) show(ctx context.Context, w work, jobs int) (bool, error) {
	for i := 0; i < jobs; i += jobsPerNamespace {
		list := &pytorchv1beta1.PyTorchTrainingJobList{}
		if err := c.Client.List(ctx, list, client.InNamespace(w.of(i).namespace)); err != nil {
			return false, err
		}
		for _, job := range list.Items {
			if job.Status.Progress == nil {
				return false, nil
			}
		}
	}
	return true, nil
}

// ServeHTTP passes a request to the receiver of the pod to which the controller sent it. The local address of the
// connection is the address of this pod.
func (s *sidecars) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		http.Error(w, "no address", http.StatusInternalServerError)
		return
	}
	handler := s.handlers[local.AddrPort().Addr().Unmap()]
	if handler == nil {
		http.NotFound(w, r)
		return
	}
	handler.ServeHTTP(w, r)
}

func (s *sidecars) close() { _ = s.server.Close() }

// training simulates a training that does one step per second.
type training struct {
	began   time.Time
	tracker *progress.Tracker
}

func newTraining() *training {
	return &training{began: time.Now(), tracker: progress.NewTracker(clock.RealClock{})}
}

// state reports the current step to the tracker, and returns the state of the tracker.
func (t *training) state() progress.State {
	step := int64(time.Since(t.began) / time.Second)
	t.tracker.Add(progress.Report{
		Step: &step, TotalSteps: new(int64(1_000_000)), Metrics: []batchv1beta1.ProgressMetric{{Name: "loss", Value: "0.25"}},
	})
	return t.tracker.State()
}
