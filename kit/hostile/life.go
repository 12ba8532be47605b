package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/crd"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/kit/model"
)

// Begun is a job whose controller has done everything that it can do before a kubelet starts the pods.
type Begun[J framework.Job] struct {
	Job J
	// Spec of the job.
	Spec framework.JobSpec
	// Pods of the job, sorted by name.
	Pods []corev1.Pod
}

// Begin creates a job in a model of the API server and reconciles it until nothing changes. The parameter through is
// a function that wraps the client of the model for the controller. If it is nil, the controller uses the client of
// the model. Begin returns an error if a reconcile fails or if the job still changes after 10 reconciles.
func Begin[J framework.Job](
	ctx context.Context, ofKind framework.Controller[J], job J, through func(client.Client) client.Client,
) (Begun[J], error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), ofKind.AddToScheme(scheme)); err != nil {
		return Begun[J]{}, err
	}
	clock := testingclock.NewFakePassiveClock(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
	cluster := model.NewCluster(scheme, clock)
	own := cluster.Client()
	if err := own.Create(ctx, job); err != nil {
		return Begun[J]{}, err
	}
	asked := own
	if through != nil {
		asked = through(own)
	}
	reconciler, err := controller.New(
		controller.Cluster{Client: asked, APIReader: asked, Events: silent{}, Metrics: prometheus.NewRegistry()},
		ofKind.Framework,
		controller.Options{Settings: view.Settings{ClusterDomain: "cluster.local", Image: "controller:test"}, Clock: clock},
	)
	if err != nil {
		return Begun[J]{}, err
	}
	ctx = log.IntoContext(ctx, logr.Discard())
	begun := Begun[J]{Job: ofKind.Framework.NewJob()}
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(job)}
	for range 10 {
		seen := begun.Job.GetResourceVersion()
		if _, err := reconciler.Reconcile(ctx, request); err != nil {
			return begun, err
		}
		if err := own.Get(ctx, request.NamespacedName, begun.Job); err != nil {
			return begun, err
		}
		var pods corev1.PodList
		if err := own.List(ctx, &pods, client.InNamespace(job.GetNamespace())); err != nil {
			return begun, err
		}
		rests := begun.Job.GetResourceVersion() == seen && len(pods.Items) == len(begun.Pods) && !cluster.ConsiderNew(false)
		if begun.Pods = pods.Items; rests {
			begun.Spec = ofKind.Framework.JobSpec(begun.Job)
			return begun, nil
		}
	}
	return begun, errors.New("the controller still changes the job after 10 reconciles")
}

// silent is an event recorder that discards all events.
type silent struct{}

var _ events.EventRecorder = silent{}

// Eventf implements events.EventRecorder.
func (silent) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// resumed returns the job after its user has paused and resumed it, so that resumeSpecs applies to its pods.
func resumed[J framework.Job](controller framework.Controller[J], job J) J {
	resumed := job.DeepCopyObject().(J) //nolint:forcetypeassert // the copy of a J is one
	if mode := controller.Framework.JobSpec(resumed).RunMode; mode.Pausing() {
		mode.Pause.Enabled = false
	}
	resumed.JobStatus().Pauses = 1
	return resumed
}

// Broken returns an error with the laws that a begun job violates. Every admitted job must fulfill these laws, whatever
// its spec is.
func Broken[J framework.Job](ctx context.Context, definition *crd.Definition, begun Begun[J]) error {
	errs := append(checkPods(begun), checkStatus(ctx, definition, begun))
	return errors.Join(errs...)
}

// checkStatus checks that the API server accepts the status. It also checks that the job has all its pods, or that
// the condition Initialized gives the reason why some are missing. A job that another controller manages must have no
// pods and no such condition.
func checkStatus[J framework.Job](ctx context.Context, definition *crd.Definition, begun Begun[J]) error {
	document, err := json.Marshal(begun.Job)
	if err != nil {
		return err
	}
	object := map[string]any{}
	if err := decode(document, &object); err != nil {
		return err
	}
	if err := definition.CheckStatus(ctx, object); err != nil {
		return fmt.Errorf("the API server rejects the status: %w", err)
	}
	status, pods, want := *begun.Job.JobStatus(), len(begun.Pods), model.CountReplicas(begun.Spec)
	if begun.Spec.RunMode.Pausing() {
		want = 0
	}
	initialized := meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionInitialized)
	switch {
	case !begun.Spec.RunsHere():
		if pods > 0 || initialized != nil {
			return fmt.Errorf("the job is not left to its manager: it has %d pods and the status %+v", pods, status)
		}
		return nil
	case status.Finished():
		return fmt.Errorf("the job has finished before its pods have started: %+v", status.Conditions)
	case initialized == nil:
		return errors.New("the job has no condition Initialized")
	case initialized.Status == metav1.ConditionFalse && initialized.Message == "":
		return fmt.Errorf("the condition Initialized is False without a message: %+v", initialized)
	case initialized.Status == metav1.ConditionTrue && pods != want, pods > want:
		return fmt.Errorf("the job has %d pods, want %d: %+v", pods, want, initialized)
	}
	return nil
}

// checkPods checks that each pod has the metadata and the fields that the job requires.
func checkPods[J framework.Job](begun Begun[J]) []error {
	var errs []error
	job := begun.Job
	hostPorts := map[int32]string{}
	templates := map[string]*corev1.PodTemplateSpec{}
	for _, role := range begun.Spec.Roles {
		templates[role.Type] = role.Template
	}
	for i := range begun.Pods {
		pod := &begun.Pods[i]
		breaks := func(law string, args ...any) {
			errs = append(errs, fmt.Errorf("pod %s: %s", pod.Name, fmt.Sprintf(law, args...)))
		}
		if problems := utilvalidation.IsDNS1123Label(pod.Name); len(problems) > 0 {
			breaks("its name is not a DNS label: %q", problems)
		}
		roleType := pod.Labels[batchv1beta1.LabelReplicaType]
		template, known := templates[roleType]
		index, err := strconv.ParseInt(pod.Labels[batchv1beta1.LabelReplicaIndex], 10, 32)
		if !known || err != nil {
			breaks("its labels do not identify a replica: %v", pod.Labels)
			continue
		}
		if want := framework.MemberName(job.GetName(), roleType, int32(index)); pod.Name != want {
			breaks("its name is not the name of its replica, %s", want)
		}
		if pod.Spec.Hostname != pod.Name || pod.Spec.Subdomain != job.GetName() {
			breaks("its hostname and subdomain are %s.%s, want %s.%s",
				pod.Spec.Hostname, pod.Spec.Subdomain, pod.Name, job.GetName())
		}
		if pod.Labels[batchv1beta1.LabelJobName] != job.GetName() || !metav1.IsControlledBy(pod, job) {
			breaks("its labels or owner references do not belong to the job: %v %v", pod.Labels, pod.OwnerReferences)
		}
		if pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
			breaks("its restart policy is %s, want Never", pod.Spec.RestartPolicy)
		}
		got, want := containerNames(pod.Spec.Containers), containerNames(template.Spec.Containers)
		if !slices.Equal(got, want) {
			breaks("its containers are %q, but its template has %q", got, want)
			continue
		}
		for _, problem := range checkHostNetwork(pod, template.Spec, hostPorts) {
			breaks("%s", problem)
		}
	}
	return errs
}

func containerNames(containers []corev1.Container) []string {
	var names []string
	for _, c := range containers {
		names = append(names, c.Name)
	}
	return names
}
