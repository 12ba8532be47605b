package controller

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// testJob is a job without a spec.
type testJob struct {
	corev1.ConfigMap

	status batchv1beta1.JobStatus
}

func (j *testJob) JobStatus() *batchv1beta1.JobStatus { return &j.status }

// plain is a framework without a Secret.
type plain struct {
	framework.Framework[*testJob]
}

// secretive is a framework with a Secret.
type secretive struct {
	plain

	err error
}

func (secretive) SecretName(job *testJob) string { return job.Name + "-keys" }

func (s secretive) NewSecret(*testJob) (*corev1.Secret, error) {
	return &corev1.Secret{}, s.err
}

// creations is a client that can only create objects.
type creations struct {
	client.Client

	answer  error
	created []client.Object
	options client.CreateOptions
}

func (c *creations) Create(_ context.Context, object client.Object, options ...client.CreateOption) error {
	c.created = append(c.created, object)
	c.options.ApplyOptions(options)
	return c.answer
}

func TestCreateSecret(t *testing.T) {
	t.Parallel()
	secrets := schema.GroupResource{Resource: "secrets"}
	failed := errors.New("no entropy")
	for name, tc := range map[string]struct {
		framework framework.Framework[*testJob]
		// answer is the error that the API server returns. Nil means success.
		answer error
		status batchv1beta1.JobStatus
		// want is the message of the expected error. Empty means no error.
		want string
		// wantRefused is true if the expected error is a *report.RefusedError, which is written into a condition of the
		// job.
		wantRefused bool
		// wantNone is true if no Secret is created.
		wantNone bool
	}{
		"no Secret is created for a framework without one": {framework: plain{}, wantNone: true},
		"a missing Secret is created":                      {framework: secretive{}},
		"an existing Secret is no error": {
			framework: secretive{}, answer: apierrors.NewAlreadyExists(secrets, "job-keys"),
		},
		"a Secret that cannot be built is an error": {
			framework: secretive{err: failed}, want: "building the Secret of the job: no entropy", wantNone: true,
		},
		"a Secret that a quota rejects is a refusal": {
			framework: secretive{}, answer: apierrors.NewForbidden(secrets, "job-keys", errors.New("exceeded quota")),
			want: `creating secret job-keys: secrets "job-keys" is forbidden: exceeded quota`, wantRefused: true,
		},
		"a quota is ignored once the job has had pods, because the Secret exists": {
			framework: secretive{}, answer: apierrors.NewForbidden(secrets, "job-keys", errors.New("exceeded quota")),
			status: batchv1beta1.JobStatus{Attempt: 1},
		},
		"a timeout of the API server is an error": {
			framework: secretive{}, answer: apierrors.NewTimeoutError("too slow", 1),
			want: "creating secret job-keys: Timeout: too slow",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &creations{answer: tc.answer}
			r := &Reconciler[*testJob]{cluster: Cluster{Client: api}, framework: tc.framework, gvk: testKind}
			job := &testJob{
				corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "job", UID: "job-uid"}}, tc.status,
			}
			err := r.createSecret(t.Context(), job, &jobtest.NewJob().Job)
			got := ""
			if err != nil {
				got = err.Error()
			}
			diff(t, "error", tc.want, got)
			if _, refused := errors.AsType[*report.RefusedError](err); refused != tc.wantRefused {
				t.Errorf("the error is a RefusedError: %t, want %t", refused, tc.wantRefused)
			}
			if tc.wantNone {
				diff(t, "creations", 0, len(api.created))
				return
			}
			diff(t, "creations", []client.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "job-keys", Labels: view.Labels("TestJob", "job"),
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "test/v1", Kind: "TestJob", Name: "job", UID: "job-uid", Controller: new(true),
					BlockOwnerDeletion: new(true),
				}},
			}}}, api.created)
			if !api.options.DisableReadYourWritesConsistency {
				t.Error("the client reads Secrets, which the controller has no permission for")
			}
		})
	}
}

// deletingAPI is a client that can only delete objects. It records the deletions.
type deletingAPI struct {
	client.Client

	answer  error
	deleted []string
	options client.DeleteOptions
}

func (d *deletingAPI) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	d.deleted = append(d.deleted, object.GetNamespace()+"/"+object.GetName())
	d.options.ApplyOptions(options)
	return d.answer
}

func TestDeleteSecret(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed calling webhook")
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, tc := range map[string]struct {
		framework framework.Framework[*testJob]
		// answer is the error that the API server returns. Nil means success.
		answer error
		// want are the Secrets that must be deleted.
		want []string
		// wantErr is the message of the expected error. Empty means no error.
		wantErr string
	}{
		"no Secret is deleted for a framework without one": {framework: plain{}},
		"the Secret of the job is deleted":                 {framework: secretive{}, want: []string{"ns/job-keys"}},
		"a Secret that is gone is no error": {
			framework: secretive{}, answer: apierrors.NewNotFound(secrets, "job-keys"), want: []string{"ns/job-keys"},
		},
		"a forbidden deletion is no error": {
			framework: secretive{}, answer: apierrors.NewForbidden(secrets, "job-keys", nil), want: []string{"ns/job-keys"},
		},
		"a deletion that fails in a webhook is no error": {
			framework: secretive{}, answer: apierrors.NewInternalError(failed), want: []string{"ns/job-keys"},
		},
		"a timeout of the API server is an error of the deletion": {
			framework: secretive{}, answer: apierrors.NewTimeoutError("too slow", 1), want: []string{"ns/job-keys"},
			wantErr: "deleting secret job-keys: Timeout: too slow",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &deletingAPI{answer: tc.answer}
			r := &Reconciler[*testJob]{cluster: Cluster{Client: api}, framework: tc.framework, gvk: testKind}
			job := &testJob{ConfigMap: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "job"}}}
			err := r.deleteSecret(t.Context(), job)
			got := ""
			if err != nil {
				got = err.Error()
			}
			diff(t, "error", tc.wantErr, got)
			diff(t, "deletions", tc.want, api.deleted)
			if len(tc.want) > 0 && !api.options.DisableReadYourWritesConsistency {
				t.Error("the client reads Secrets, which the controller has no permission for")
			}
		})
	}
}
