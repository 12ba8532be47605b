package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/plan"
)

// createSecret creates the Secret that the replicas share, if they do and there is none yet.
func (r *Reconciler[J]) createSecret(ctx context.Context, job J, planned *plan.Job) error {
	withSecret, ok := r.framework.(framework.SecretFramework[J])
	if !ok {
		return nil
	}
	secret, err := withSecret.NewSecret(job)
	if err != nil {
		return fmt.Errorf("making the Secret of the job: %w", err)
	}
	secret.ObjectMeta = planned.MetaOfOwned()
	secret.Name = withSecret.SecretName(job)
	// Without the option the client would have Secrets in its cache, which it may not read.
	err = r.client.Create(ctx, secret, client.DisableReadYourWritesConsistency)
	// Quotas are checked before names.
	overQuota := apierrors.IsForbidden(err) && (job.JobStatus().RunningTime != nil || job.JobStatus().Attempt > 0)
	if apierrors.IsAlreadyExists(err) || overQuota {
		return nil // the pods that were there before had it
	}
	return owned.RefusedOrFailed("secret "+secret.Name, err)
}

// deleteSecret deletes the Secret that the replicas shared, if they did. It is called before the status records
// that the run is over, so that a controller that restarts in between deletes the Secret then.
func (r *Reconciler[J]) deleteSecret(ctx context.Context, job J) error {
	withSecret, ok := r.framework.(framework.SecretFramework[J])
	if !ok {
		return nil
	}
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = job.GetNamespace(), withSecret.SecretName(job)
	err := r.client.Delete(ctx, secret, client.DisableReadYourWritesConsistency)
	switch {
	case owned.IsRefused(err):
		// The job ends nevertheless: an administrator did not grant the deletion, or a webhook does not admit it.
		ctrllog.FromContext(ctx).Error(err, "The Secret of the job stays until the job is deleted", "secret", secret.Name)
		return nil
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("deleting secret %s: %w", secret.Name, err)
	default:
		return nil
	}
}
