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
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/kit/model"
)

// Begun is a job whose controller has done all that it can do until a kubelet runs the pods.
type Begun[J framework.Job] struct {
	Job J
	// Spec of the job.
	Spec framework.JobSpec
	// Pods of the job by name.
	Pods []corev1.Pod
}

// Begin gives a new job to its controller and to a model of the API server. All that the controller asks of that goes
// through the client that the function makes, nil for the model's own. It returns an error if the controller fails, or
// does not come to rest.
func Begin[J framework.Job](
	ctx context.Context, ofKind manager.Controller[J], job J, through func(client.Client) client.Client,
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
		controller.Cluster{Client: asked, APIReader: asked, Events: nobody{}, Metrics: prometheus.NewRegistry()},
		ofKind.Framework,
		controller.Options{Settings: plan.Settings{ClusterDomain: "cluster.local", Image: "controller:test"}, Clock: clock},
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
	return begun, errors.New("the controller does not come to rest")
}

// nobody hears events.
type nobody struct{}

var _ events.EventRecorder = nobody{}

// Eventf implements events.EventRecorder.
func (nobody) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// resumed returns the job as it is when its user has paused and resumed it, so that its pods start as resumeSpecs say.
func resumed[J framework.Job](controller manager.Controller[J], job J) J {
	resumed := job.DeepCopyObject().(J) //nolint:forcetypeassert // the copy of a J is one
	if mode := controller.Framework.JobSpec(resumed).RunMode; mode.Pausing() {
		mode.Pause.Enabled = false
	}
	resumed.JobStatus().Pauses = 1
	return resumed
}

// Broken returns the laws that a job breaks which has begun: what its user may rely on whatever the spec is.
func Broken[J framework.Job](ctx context.Context, crd *CRD, begun Begun[J]) error {
	errs := append(checkPods(begun), checkStatus(ctx, crd, begun))
	return errors.Join(errs...)
}

// checkStatus checks that the status can be written, and that it says how many replicas run, or why they do not.
func checkStatus[J framework.Job](ctx context.Context, crd *CRD, begun Begun[J]) error {
	document, err := json.Marshal(begun.Job)
	if err != nil {
		return err
	}
	object := map[string]any{}
	if err := decode(document, &object); err != nil {
		return err
	}
	if err := crd.CheckStatus(ctx, object); err != nil {
		return fmt.Errorf("the API server does not take the status: %w", err)
	}
	status, pods, want := *begun.Job.JobStatus(), len(begun.Pods), model.CountReplicas(begun.Spec)
	if begun.Spec.RunMode.Pausing() {
		want = 0
	}
	initialized := meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionInitialized)
	switch {
	case status.Finished():
		return fmt.Errorf("the job has finished before it began: %+v", status.Conditions)
	case initialized == nil:
		return errors.New("the job has no condition Initialized")
	case initialized.Status == metav1.ConditionFalse && initialized.Message == "":
		return fmt.Errorf("the job does not say why it is not initialized: %+v", initialized)
	case initialized.Status == metav1.ConditionTrue && pods != want, pods > want:
		return fmt.Errorf("the job has %d pods, want %d: %+v", pods, want, initialized)
	}
	return nil
}

// checkPods checks what each pod owes to the job.
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
			breaks("its name is no DNS label: %q", problems)
		}
		roleType := pod.Labels[batchv1beta1.LabelReplicaType]
		template, known := templates[roleType]
		index, err := strconv.ParseInt(pod.Labels[batchv1beta1.LabelReplicaIndex], 10, 32)
		if !known || err != nil {
			breaks("its labels name no replica: %v", pod.Labels)
			continue
		}
		if want := framework.MemberName(job.GetName(), roleType, int32(index)); pod.Name != want {
			breaks("it is named other than its replica, %s", want)
		}
		if pod.Spec.Hostname != pod.Name || pod.Spec.Subdomain != job.GetName() {
			breaks("its name in the cluster is %s.%s", pod.Spec.Hostname, pod.Spec.Subdomain)
		}
		if pod.Labels[batchv1beta1.LabelJobName] != job.GetName() || !metav1.IsControlledBy(pod, job) {
			breaks("it is not the job's: %v %v", pod.Labels, pod.OwnerReferences)
		}
		if pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
			breaks("its restart policy is %s", pod.Spec.RestartPolicy)
		}
		if got, want := containerNames(pod.Spec.Containers), containerNames(template.Spec.Containers); !slices.Equal(
			got,
			want,
		) {
			breaks("its containers are %q, those of its template %q", got, want)
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
