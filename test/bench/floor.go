package bench

import (
	"context"
	"fmt"
	"hash/crc32"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/pytorch"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// floor is the contender that does only the work that no controller of training jobs can avoid. Its controller only
// watches the pods, and writes the status of a job twice: when all replicas run, and when all have succeeded. The
// client that creates a job also creates its Service and its complete pods. The cache of this controller drops the
// spec of a pod, and the whole status except the phase.
var floor = contender{
	name:      "floor",
	start:     startFloor,
	create:    createFloor,
	kind:      ours.kind,
	succeeded: ours.succeeded,
}

// floorLabels returns the labels that the objects of a job have.
func floorLabels(job string) map[string]string {
	return map[string]string{
		batchv1beta1.LabelJobKind:      pytorchv1beta1.Kind,
		batchv1beta1.LabelJobName:      job,
		"app.kubernetes.io/name":       "training-job",
		"app.kubernetes.io/instance":   job,
		"app.kubernetes.io/managed-by": "floor",
	}
}

func createFloor(ctx context.Context, c *cluster, w work, i int) error {
	job := w.trainingJob(i)
	if err := c.Client.Create(ctx, job); err != nil {
		return err
	}
	selector := map[string]string{batchv1beta1.LabelJobKind: pytorchv1beta1.Kind, batchv1beta1.LabelJobName: job.Name}
	owner := []metav1.OwnerReference{
		*metav1.NewControllerRef(job, pytorchv1beta1.GroupVersion.WithKind(pytorchv1beta1.Kind)),
	}
	service := w.service(i, selector)
	service.Labels, service.OwnerReferences = floorLabels(job.Name), owner
	if err := c.Client.Create(ctx, service); err != nil {
		return err
	}
	peers := framework.NewPeers(job.Namespace, job.Name, job.UID, clusterDomain, 0,
		pytorch.Controller().Framework.JobSpec(job).Roles)
	peers.Image = image
	for _, member := range peers.Members {
		template := member.Role.Template.DeepCopy()
		if err := pytorch.Controller().Framework.Wire(job, peers, member, template); err != nil {
			return err
		}
		if member.Rank > 0 {
			leader, spec := []string{peers.FQDN(peers.Leader())}, &template.Spec
			if err := peers.AddWait(member, spec, spec.Containers[0], leader); err != nil {
				return err
			}
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: job.Namespace, Name: member.Name, Labels: floorLabels(job.Name), Annotations: template.Annotations,
				OwnerReferences: owner,
			},
			Spec: template.Spec,
		}
		pod.Labels["app.kubernetes.io/component"] = member.Role.Type
		pod.Labels[batchv1beta1.LabelReplicaType] = member.Role.Type
		pod.Labels[batchv1beta1.LabelReplicaIndex] = strconv.Itoa(int(member.Index))
		pod.Labels[batchv1beta1.LabelAttempt] = "0"
		pod.Spec.Subdomain, pod.Spec.Hostname, pod.Spec.RestartPolicy = job.Name, pod.Name, corev1.RestartPolicyNever
		if err := c.Client.Create(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// floorStatuses is the number of concurrent status writes. The pytorch-controller has as many workers.
const floorStatuses = 16

// startFloor watches the pods. It writes the status of a job when all its replicas run, and again when all have
// succeeded.
func startFloor(ctx context.Context, c *cluster) error {
	isOurs, err := labels.NewRequirement(batchv1beta1.LabelJobName, selection.Exists, nil)
	if err != nil {
		return err
	}
	// The same worker writes all statuses of a job, so that the writes keep their order.
	queues := make([]chan *pytorchv1beta1.PyTorchTrainingJob, floorStatuses)
	for i := range queues {
		queues[i] = make(chan *pytorchv1beta1.PyTorchTrainingJob, 2*c.bench.scale.jobs)
		go func() {
			for job := range queues[i] {
				if err := c.writePhase(ctx, job); err != nil && ctx.Err() == nil {
					c.bench.progress.Printf("the floor: %v", err)
				}
			}
		}()
	}
	reached := map[string]map[corev1.PodPhase]int32{}
	return c.follow(ctx, &corev1.Pod{}, labels.NewSelector().Add(*isOurs), func(before, after any) {
		was, is := corev1.PodPending, after.(*corev1.Pod) //nolint:forcetypeassert // the informer watches pods
		if pod, known := before.(*corev1.Pod); known {
			was = pod.Status.Phase
		}
		phase := is.Status.Phase
		if phase == was {
			return
		}
		name := is.Labels[batchv1beta1.LabelJobName]
		if reached[name] == nil {
			reached[name] = map[corev1.PodPhase]int32{}
		}
		reached[name][phase]++
		if reached[name][phase] == replicas {
			job := &pytorchv1beta1.PyTorchTrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: is.Namespace, Name: name}}
			job.Status.Phase = batchv1beta1.JobPhase(phase)
			queues[crc32.ChecksumIEEE([]byte(name))%floorStatuses] <- job
		}
	})
}

// writePhase writes the phase of a job to the API server. The phases that the floor writes, Running and Succeeded,
// have the same names for jobs and for pods.
func (c *cluster) writePhase(ctx context.Context, job *pytorchv1beta1.PyTorchTrainingJob) error {
	patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, job.Status.Phase)
	return c.Client.Status().Patch(ctx, job, client.RawPatch(types.MergePatchType, patch))
}
