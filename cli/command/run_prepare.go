package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/code"
	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/printable"
	"tensorstack.dev/jobs/cli/run"
	"tensorstack.dev/jobs/common/report"
)

// preparation creates the objects of a training. It creates the job first. The job is paused, and owns all other
// objects. When the code is in the cluster, preparation starts the job. So a command that is killed leaves nothing, a
// paused job, or a job that runs. If a user deletes the paused job, Kubernetes deletes the other objects with it.
type preparation struct {
	*cluster

	screen  *console
	objects *run.Objects
	folder  *code.Folder
	// codeClaim is the existing claim that the code is uploaded to, or empty.
	codeClaim string

	// id is the value of the annotation AnnotationPreparing. It identifies the job that this command has created.
	id string
	// uploaded reports whether the upload has begun. If so, the claim can have a folder with the code.
	uploaded bool
}

const (
	// writeTimeout limits each write. An interrupt does not cancel a write, since the command would then not know
	// whether the write has succeeded.
	writeTimeout = 30 * time.Second
	// replaceTimeout is how long the command waits until an object of a deleted job of the same name is gone.
	replaceTimeout = time.Minute
)

// errInterrupted means that a signal has ended the command.
var errInterrupted = failure{error: errors.New("interrupted"), code: exitInterrupted}

// run creates all objects and starts the job. After an error or an interrupt, run deletes the job that it has
// created. The error reports the objects that are left.
func (p *preparation) run(ctx context.Context) error {
	p.id = string(uuid.NewUUID())
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err := p.createJob(ctx); err != nil {
		return err
	}
	p.objects.SetOwner()
	p.screen.message("%s is created with %s of %s (%s)",
		p.objects.Job.Ref(), report.Count(len(p.folder.Files), "file"), p.folder.Path, code.Bytes(p.folder.Size()))
	err := p.provideCode(ctx)
	if err == nil && ctx.Err() == nil {
		if err = p.start(ctx); err == nil {
			return nil
		}
	}
	return p.undo(ctx, err)
}

// write returns the context of one write, which an interrupt does not cancel.
func write(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
}

// createJob creates the job as a paused job.
func (p *preparation) createJob(ctx context.Context) error {
	ctx, cancel := write(ctx)
	defer cancel()
	job := p.objects.Job
	annotations := job.GetAnnotations()
	annotations[jobs.AnnotationPreparing] = p.id
	job.SetAnnotations(annotations)
	err := p.Create(ctx, job.Job)
	switch {
	case err == nil:
		return nil
	case isRejected(err) && !apierrors.IsAlreadyExists(err):
		return err
	}
	// The request can have created the job although it failed: the answer can be lost, or a proxy can repeat the request.
	existing := job.Kind.New()
	switch readErr := p.Get(ctx, client.ObjectKeyFromObject(job), existing); {
	case apierrors.IsNotFound(readErr):
		return fmt.Errorf("%w. %s does not exist now. If the API server still handles the request, the job is paused when "+
			"it appears, and kubectl train delete %s deletes it", err, p.where(), job.Ref())
	case readErr != nil:
		return fmt.Errorf("%w. It is not known whether %s exists now, since it cannot be read (%w). "+
			"If it exists, it is paused, and kubectl train delete %s deletes it", err, p.where(), readErr, job.Typed())
	case existing.GetAnnotations()[jobs.AnnotationPreparing] == p.id:
		p.objects.Job.Job = existing
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return p.undo(ctx, err)
	case apierrors.IsAlreadyExists(err) && existing.GetAnnotations()[jobs.AnnotationPreparing] != "":
		return fmt.Errorf("%s exists already. Another kubectl train run creates it, or was killed while it did: "+
			"kubectl train delete %s deletes it", p.where(), job.Typed())
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s exists already: choose another --name, or delete it: kubectl train delete %s",
			p.where(), job.Typed())
	}
	return err
}

// isRejected reports whether the API server has rejected a request, so that the request has changed nothing.
func isRejected(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500
}

// provideCode brings the code to the cluster.
func (p *preparation) provideCode(ctx context.Context) error {
	if p.objects.ConfigMap != nil {
		return p.createOwned(ctx, p.objects.ConfigMap)
	}
	if p.objects.Claim != nil {
		if err := p.createOwned(ctx, p.objects.Claim); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return p.upload(ctx)
}

// requiresQueue is the name of the policy of a namespace whose pods must all be scheduled from a queue. The message of
// the API server about a rejected pod has this name.
const requiresQueue = "tensorstack-scheduler-require-queue"

// createOrAdapt creates an object with the function create. If the API server forbids the pod of the upload,
// createOrAdapt tries again with a pod from the queue of the job if the namespace requires it, and with the CPU and
// memory of the training otherwise, for example because of a LimitRange.
func createOrAdapt(objects *run.Objects, object client.Object, create func() error) error {
	err := create()
	if object != client.Object(objects.Upload) {
		return err
	}
	for tries := 0; tries < 2 && apierrors.IsForbidden(err); tries++ {
		if strings.Contains(err.Error(), requiresQueue) {
			objects.UploadFromQueue()
		} else {
			objects.UploadLikeTraining()
		}
		err = create()
	}
	if err != nil && strings.Contains(err.Error(), requiresQueue) {
		return fmt.Errorf("%w. Start the job again with a Queue, such as --queue=NAME", err)
	}
	if err != nil && strings.Contains(err.Error(), "fsGroup") {
		return fmt.Errorf("%w. Start the job again with another group, such as --volume-group=-1", err)
	}
	return err
}

// createOwned creates an object of the job. If an object of an earlier job of the same name still exists, createOwned
// waits until that object is gone.
func (p *preparation) createOwned(ctx context.Context, object client.Object) error {
	create := func() error {
		ctx, cancel := write(ctx)
		defer cancel()
		return createOrAdapt(p.objects, object, func() error { return p.Create(ctx, object) })
	}
	err := create()
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the same type
	conflict := fmt.Errorf("%w, and does not belong to the job: choose another --name", err)
	timeout := fmt.Errorf("%w, and belongs to a deleted job of the same name: try again later, or choose another --name",
		err)
	defer p.screen.setStatus("")
	var unread error // the error of the last read
	err = wait.PollUntilContextTimeout(ctx, time.Second, replaceTimeout, true, func(ctx context.Context) (bool, error) {
		unread = nil
		switch err := p.Get(ctx, client.ObjectKeyFromObject(object), existing); {
		case apierrors.IsNotFound(err):
			if err := create(); !apierrors.IsAlreadyExists(err) {
				return true, err
			}
			return false, nil
		case isFinal(err), ctx.Err() != nil:
			return false, err
		case err != nil:
			unread = fmt.Errorf("%s cannot be read: %w", object.GetName(), err)
			p.screen.setStatus(printable.Line(unread.Error()))
			return false, nil
		}
		for _, owner := range existing.GetOwnerReferences() {
			switch {
			case owner.UID == p.objects.Job.GetUID(): // the object exists because a proxy has repeated the request
				return true, nil
			case owner.Kind == p.objects.Job.Kind.Kind && owner.Name == p.objects.Job.GetName():
				return false, nil
			}
		}
		return false, conflict
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return cmp.Or(unread, timeout)
	}
	return err
}

// start ends the pause of the job.
func (p *preparation) start(ctx context.Context) error {
	ctx, cancel := write(ctx)
	defer cancel()
	job := p.objects.Job
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": job.GetUID(), "annotations": map[string]any{jobs.AnnotationPreparing: nil},
		},
		"spec": map[string]any{"runMode": nil},
	})
	if err != nil {
		return err
	}
	err = p.Patch(ctx, job.Job, client.RawPatch(types.MergePatchType, patch))
	if err == nil || isRejected(err) {
		return err
	}
	// The request can have started the job although it failed.
	if readErr := p.Get(ctx, client.ObjectKeyFromObject(job), job.Job); readErr == nil && !job.Spec().RunMode.Pausing() {
		return nil
	}
	return err
}

// undo deletes the job after an error or an interrupt. It returns an error that reports the cause and everything that
// is left. After an interrupt, the error reports the interrupt instead of the parameter cause, which is then nil or
// usually a consequence of the interrupt.
func (p *preparation) undo(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		cause = errInterrupted
		p.screen.message("Interrupted: deleting %s.", p.objects.Job.Ref())
	}
	switch err := p.delete(ctx); {
	case err != nil:
		return fmt.Errorf("%w. %s is left, and cannot be deleted (%w): "+
			"kubectl train delete %s deletes it with everything that it owns", cause, p.where(), err, p.objects.Job.Typed())
	case p.uploaded && p.codeClaim != "":
		return fmt.Errorf("%w. The job is deleted. The claim %s can have the folder kubectl-train/%s with its code",
			cause, p.codeClaim, p.objects.Job.GetName())
	default:
		return fmt.Errorf("%w. Nothing is left: the job is deleted with everything that it owns", cause)
	}
}

// delete deletes the job. The garbage collector of Kubernetes deletes the objects that the job owns.
func (p *preparation) delete(ctx context.Context) error {
	ctx, cancel := write(ctx)
	defer cancel()
	job := p.objects.Job
	err := p.Delete(ctx, job.Job, deleteOptions(job.GetUID()))
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // conflict: another job has the name now
		return nil
	}
	if readErr := p.Get(ctx, client.ObjectKeyFromObject(job), job.Kind.New()); apierrors.IsNotFound(readErr) {
		return nil
	}
	return err
}

// deleteOptions returns the options that delete an object with everything that it owns, but only if the object has
// the given UID.
func deleteOptions(uid types.UID) *client.DeleteOptions {
	background := metav1.DeletePropagationBackground
	return &client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background}
}

// where returns the job and its namespace, for messages.
func (p *preparation) where() string {
	return fmt.Sprintf("%s in namespace %s", p.objects.Job.Ref(), p.objects.Job.GetNamespace())
}

// deletePod deletes the pod of the upload. If this fails, it prints the error and does not return it, since the pod
// is deleted with the job at the latest.
func (p *preparation) deletePod(ctx context.Context, pod *corev1.Pod) {
	ctx, cancel := write(ctx)
	defer cancel()
	if err := p.Delete(ctx, pod, deleteOptions(pod.UID)); err != nil && !apierrors.IsNotFound(err) {
		p.screen.message("The pod %s is left, and ends after an hour: %v", pod.Name, err)
	}
}
