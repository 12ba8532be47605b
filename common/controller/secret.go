package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/plan/view"
)

// newSecret returns the Secret that the replicas share. It returns nil for a framework without a Secret.
func newSecret[J framework.Job](f framework.Framework[J], job J, planned *view.Job) (*corev1.Secret, error) {
	withSecret, ok := f.(framework.SecretFramework[J])
	if !ok {
		return nil, nil //nolint:nilnil // the framework has no Secret
	}
	secret, err := withSecret.NewSecret(job)
	if err != nil {
		return nil, fmt.Errorf("building the Secret of the job: %w", err)
	}
	secret.ObjectMeta = planned.MetaOfOwned()
	secret.Name = withSecret.SecretName(job)
	return secret, nil
}

// createSecret creates the Secret that the replicas share, unless it exists. It does nothing for a framework without a
// Secret.
func (r *Reconciler[J]) createSecret(ctx context.Context, job J, planned *view.Job) error {
	secret, err := newSecret(r.framework, job, planned)
	if secret == nil || err != nil {
		return err
	}
	// Without this option the client would start a cache of Secrets, which it has no permission to read.
	err = r.cluster.Client.Create(ctx, secret, client.DisableReadYourWritesConsistency)
	// The API server checks quotas before names. So it can reject a Secret because of a quota, although the Secret
	// already exists.
	overQuota := apierrors.IsForbidden(err) && (job.JobStatus().RunningTime != nil || job.JobStatus().Attempt > 0)
	if apierrors.IsAlreadyExists(err) || overQuota {
		return nil // the Secret was created with the first pods of the job
	}
	return owned.RefusedOrFailed(batchv1beta1.ReasonCreateFailed, "creating secret "+secret.Name, err)
}

// deleteSecret deletes the Secret that the replicas shared. It does nothing for a framework without a Secret. Call
// deleteSecret before writing the status in which the job and all its replicas have ended. If the controller restarts
// before that write, it calls deleteSecret again, because the status in the API server does not show the end yet.
func (r *Reconciler[J]) deleteSecret(ctx context.Context, job J) error {
	withSecret, ok := r.framework.(framework.SecretFramework[J])
	if !ok {
		return nil
	}
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = job.GetNamespace(), withSecret.SecretName(job)
	err := r.cluster.Client.Delete(ctx, secret, client.DisableReadYourWritesConsistency)
	switch {
	case owned.IsRefused(err):
		// RBAC or a webhook does not allow the deletion. The job ends nevertheless.
		ctrllog.FromContext(ctx).Error(err, "Failed to delete the Secret; it stays until the job is deleted",
			"secret", secret.Name)
		return nil
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("deleting secret %s: %w", secret.Name, err)
	default:
		return nil
	}
}
