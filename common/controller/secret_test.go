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
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/report"
)

// testJob is a job of which only its name matters.
type testJob struct {
	corev1.ConfigMap

	status batchv1beta1.JobStatus
}

func (j *testJob) JobStatus() *batchv1beta1.JobStatus { return &j.status }

// plain is a framework without a Secret, secretive one with.
type plain struct {
	framework.Framework[*testJob]
}

type secretive struct {
	plain

	err error
}

func (secretive) SecretName(job *testJob) string { return job.Name + "-keys" }

func (s secretive) NewSecret(*testJob) (*corev1.Secret, error) {
	return &corev1.Secret{}, s.err
}

// creations is a client that creates, and nothing else.
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
		// answer is that of the API server.
		answer error
		status batchv1beta1.JobStatus
		// want is the error, empty for none. wantRefused says that the job's condition gets it.
		want        string
		wantRefused bool
		wantNone    bool
	}{
		"a kind without a Secret": {framework: plain{}, wantNone: true},
		"one that is not there":   {framework: secretive{}},
		"one that is there stays": {framework: secretive{}, answer: apierrors.NewAlreadyExists(secrets, "job-keys")},
		"one that cannot be made": {
			framework: secretive{err: failed}, want: "making the Secret of the job: no entropy", wantNone: true,
		},
		"one that is refused": {
			framework: secretive{}, answer: apierrors.NewForbidden(secrets, "job-keys", errors.New("exceeded quota")),
			want: `creating secret job-keys: secrets "job-keys" is forbidden: exceeded quota`, wantRefused: true,
		},
		"one that is refused by a quota, though the job has had pods and so has it": {
			framework: secretive{}, answer: apierrors.NewForbidden(secrets, "job-keys", errors.New("exceeded quota")),
			status: batchv1beta1.JobStatus{Attempt: 1},
		},
		"an API server that does not answer in time": {
			framework: secretive{}, answer: apierrors.NewTimeoutError("too slow", 1),
			want: "creating secret job-keys: Timeout: too slow",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &creations{answer: tc.answer}
			r := &Reconciler[*testJob]{client: api, framework: tc.framework, gvk: testKind}
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
				t.Errorf("the error is a refusal: %t, want %t", refused, tc.wantRefused)
			}
			if tc.wantNone {
				diff(t, "creations", 0, len(api.created))
				return
			}
			diff(t, "creations", []client.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "job-keys", Labels: plan.Labels("TestJob", "job"),
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "test/v1", Kind: "TestJob", Name: "job", UID: "job-uid", Controller: new(true),
					BlockOwnerDeletion: new(true),
				}},
			}}}, api.created)
			if !api.options.DisableReadYourWritesConsistency {
				t.Error("the client would read Secrets, which the controller may not")
			}
		})
	}
}

// deletingAPI answers deletions, and keeps what was to be deleted.
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
		// answer is that of the API server.
		answer error
		want   []string
		// wantErr is the error, empty for none.
		wantErr string
	}{
		"a kind without a Secret deletes none": {framework: plain{}},
		"the Secret of the job is deleted":     {framework: secretive{}, want: []string{"ns/job-keys"}},
		"a Secret that is gone is no error": {
			framework: secretive{}, answer: apierrors.NewNotFound(secrets, "job-keys"), want: []string{"ns/job-keys"},
		},
		"a Secret that must not be deleted is no error": {
			framework: secretive{}, answer: apierrors.NewForbidden(secrets, "job-keys", nil), want: []string{"ns/job-keys"},
		},
		"a Secret whose deletion a webhook fails is no error": {
			framework: secretive{}, answer: apierrors.NewInternalError(failed), want: []string{"ns/job-keys"},
		},
		"an API server that does not answer is an error": {
			framework: secretive{}, answer: apierrors.NewTimeoutError("too slow", 1), want: []string{"ns/job-keys"},
			wantErr: "deleting secret job-keys: Timeout: too slow",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &deletingAPI{answer: tc.answer}
			r := &Reconciler[*testJob]{client: api, framework: tc.framework, gvk: testKind}
			job := &testJob{ConfigMap: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "job"}}}
			err := r.deleteSecret(t.Context(), job)
			got := ""
			if err != nil {
				got = err.Error()
			}
			diff(t, "error", tc.wantErr, got)
			diff(t, "deletions", tc.want, api.deleted)
			if len(tc.want) > 0 && !api.options.DisableReadYourWritesConsistency {
				t.Error("the client would read Secrets, which the controller may not")
			}
		})
	}
}
