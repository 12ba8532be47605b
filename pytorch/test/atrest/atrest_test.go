// Package atrest checks that running jobs cause no writes to the API server while nothing relevant changes. The test
// waits most of the time, so it is in a separate package, which runs in parallel with others.
package atrest

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/kit/controlplane"
	"tensorstack.dev/jobs/pytorch"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

const (
	namespace = "default"
	system    = "t9k-pytorch"
)

var (
	jobs = flag.Int("jobs", 100, "number of running jobs")
	rest = flag.Duration("for", 10*time.Second, "how long to check that nothing is written")
)

// During the check, the controller writes only the Lease for leader election, which is in another namespace. It
// reconciles every job, since the test changes the pod of each job in a way that does not matter.
func TestRunningJobsCostNoWrite(t *testing.T) {
	if testing.Short() {
		t.Skip("the test takes most of a minute")
	}
	ctx, stop := context.WithCancel(t.Context())
	plane := start(ctx, t)
	controller := runController(ctx, t, plane)

	inParallel(t, func(i int) error { return plane.Client.Create(ctx, newJob(i)) })
	eventually(t, "a pod of every job", func() (int, error) {
		var pods corev1.PodList
		err := plane.Client.List(ctx, &pods, client.InNamespace(namespace))
		return len(pods.Items), err
	})
	changePods(ctx, t, plane, runPod)
	eventually(t, "every job to run", func() (int, error) { return runningJobs(ctx, plane.Client) })
	eventually(t, "the event Running of every job", func() (int, error) {
		var events corev1.EventList
		err := plane.Client.List(ctx, &events, client.InNamespace(namespace), client.MatchingFields{"reason": "Running"})
		return len(events.Items), err
	})

	before, leases := plane.Writes.In(namespace, ""), plane.Writes.In(system, "/leases/")
	over := time.After(*rest) // the measurement begins
	changePods(ctx, t, plane, touchPod)
	<-over
	if after := plane.Writes.In(namespace, ""); len(after) != len(before) {
		t.Errorf("%d writes in %s, for example %q", len(after)-len(before), *rest, after[len(before)])
	}
	if after := plane.Writes.In(system, "/leases/"); len(after) == len(leases) {
		t.Error("the Lease was not renewed: the controller does not run, or its writes are not counted")
	}
	t.Logf("%d jobs caused %d writes until they ran, and none in the %s after that", *jobs, len(before), *rest)

	stop()
	if err := <-controller; err != nil {
		t.Error(err)
	}
}

func start(ctx context.Context, t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	controller := pytorch.Controller()
	plane, err := controlplane.Start(ctx, "../../config", system, controller.Name, controller.AddToScheme)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	return plane
}

// runController runs the controller with its default options. The channel receives the error with which it ends.
func runController(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	ctrl.SetLogger(logr.Discard())
	go func() {
		ended <- manager.Run(ctx, manager.JobProgram(pytorch.Controller(), controller.DefaultOptions()), plane.Controller(),
			plane.Options(), logr.Discard())
	}()
	return ended
}

func newJob(i int) *v1beta1.PyTorchTrainingJob {
	return &v1beta1.PyTorchTrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: jobName(i)},
		Spec: v1beta1.PyTorchTrainingJobSpec{
			RunPolicy: batchv1beta1.RunPolicy{ActiveDeadlineSeconds: new(int64(3600))},
			ReplicaSpecs: []v1beta1.ReplicaSpec{{
				Type: "worker",
				Template: corev1.PodTemplateSpec{
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "pytorch", Image: "training"}}},
				},
			}},
		},
	}
}

func jobName(i int) string { return fmt.Sprintf("job-%d", i) }

// runPod makes the pod of a job run.
func runPod(pod *corev1.Pod) { kubelet.Run(pod, "node", time.Now()) }

// touchPod changes the pod of a job in a way that triggers a reconcile and does not matter.
func touchPod(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions,
		corev1.PodCondition{Type: "example.com/Touched", Status: corev1.ConditionTrue})
}

// changePods changes the pod of every job.
func changePods(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, change func(*corev1.Pod)) {
	t.Helper()
	inParallel(t, func(i int) error {
		pod := &corev1.Pod{}
		name := client.ObjectKey{Namespace: namespace, Name: framework.MemberName(jobName(i), "worker", 0)}
		if err := plane.Client.Get(ctx, name, pod); err != nil {
			return err
		}
		return plane.ChangePod(ctx, pod, change)
	})
}

// runningJobs returns the number of jobs whose status reports that all replicas run.
func runningJobs(ctx context.Context, c client.Client) (int, error) {
	var list v1beta1.PyTorchTrainingJobList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return 0, err
	}
	running := 0
	for i := range list.Items {
		if status := list.Items[i].JobStatus(); status.Phase == "Running" && status.Ready == "1/1" {
			running++
		}
	}
	return running, nil
}

// inParallel calls the function do for every job, with limited concurrency.
func inParallel(t *testing.T, do func(i int) error) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	for i := range *jobs {
		group.Go(func() error { return do(i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until the function count returns the number of all jobs.
func eventually(t *testing.T, what string, count func() (int, error)) {
	t.Helper()
	counted := 0
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, 5*time.Minute, true,
		func(context.Context) (bool, error) {
			var err error
			counted, err = count()
			return counted >= *jobs, err
		})
	if err != nil {
		t.Fatalf("waiting for %s: %d of %d: %v", what, counted, *jobs, err)
	}
}
