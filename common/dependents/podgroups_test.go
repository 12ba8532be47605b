package dependents_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/dependents"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/report"
)

func TestPodGroupRequeuesItsJob(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change jobtest.GroupOption
		want   bool
	}{
		"an admission requeues the job": {change: admitted, want: true},
		"a change of GroupScheduled requeues the job": {
			change: withCondition("GroupScheduled", metav1.ConditionTrue, "Scheduled", ""), want: true,
		},
		"a change of the spec requeues the job":  {change: edited, want: true},
		"a deletion requeues the job":            {change: deletingGroup, want: true},
		"a change of the owner requeues the job": {change: foreignGroup, want: true},
		"a new PodGroup requeues the job": {
			change: func(g *schedulerv1beta1.PodGroup) { g.UID = "another" }, want: true,
		},
		"a change of the pod counts does not requeue the job": {
			change: func(g *schedulerv1beta1.PodGroup) { g.Status.Running = 3 },
		},
		"a change of another condition does not requeue the job": {change: func(g *schedulerv1beta1.PodGroup) {
			meta.SetStatusCondition(&g.Status.Conditions, metav1.Condition{Type: "SufficientGroupMember"})
		}},
		"a change of the observed generation requeues the job": {
			change: func(g *schedulerv1beta1.PodGroup) { g.Status.ObservedGeneration = 1 }, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := group(2), group(2, tc.change)
			diff(t, "requeue", tc.want, dependents.PodGroupWakes(before, after))
			_, _ = dependents.TransformPodGroup(before)
			_, _ = dependents.TransformPodGroup(after)
			diff(t, "requeue after the transform of the cache", tc.want, dependents.PodGroupWakes(before, after))
		})
	}
}

// groups is a fake API server that returns the same error for every change of a PodGroup.
type groups struct{ apiServer }

func (g *groups) Create(_ context.Context, object client.Object, options ...client.CreateOption) error {
	what := "create " + object.GetName() + " of " + object.GetLabels()[batchv1beta1.LabelJobName]
	return g.changed(what, (&client.CreateOptions{}).ApplyOptions(options).DisableReadYourWritesConsistency)
}

func (g *groups) Patch(
	_ context.Context, object client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	data, err := patch.Data(object)
	return errors.Join(err,
		g.changed(string(data), (&client.PatchOptions{}).ApplyOptions(options).DisableReadYourWritesConsistency))
}

func (g *groups) Delete(_ context.Context, _ client.Object, options ...client.DeleteOption) error {
	asked := (&client.DeleteOptions{}).ApplyOptions(options)
	return g.changed("delete "+string(*asked.Preconditions.UID), asked.DisableReadYourWritesConsistency)
}

func TestChangePodGroup(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "scheduler.tensorstack.dev", Resource: "podgroups"}
	exists := apierrors.NewAlreadyExists(resource, "job")
	forbidden := apierrors.NewForbidden(resource, "job", errors.New("quota"))
	missing := apierrors.NewNotFound(resource, "job")
	conflict := apierrors.NewConflict(resource, "job", errors.New("changed"))
	const patch = `{"metadata":{"resourceVersion":"7"},"spec":{"minMember":1,"roles":[{"minMember":1,"name":"worker"}]}}`
	for name, tc := range map[string]struct {
		change string
		answer error
		owner  types.UID

		wantCall string
		// wantReason is the reason of the *report.RefusedError. Empty means none.
		wantReason string
		// wantFailure is true if Apply returns an error of another type.
		wantFailure bool
	}{
		"no change sends no request": {},
		"a PodGroup is created":      {change: "Create", wantCall: "create job of job"},
		"an existing PodGroup of the job is an error": {
			change: "Create", answer: exists, owner: "job-uid", wantCall: "create job of job", wantFailure: true,
		},
		"an existing PodGroup of another owner is a name conflict": {
			change: "Create", answer: exists, owner: "other", wantCall: "create job of job", wantReason: "NameConflict",
		},
		"an unknown kind is not installed": {
			change: "Create", answer: &meta.NoKindMatchError{}, wantCall: "create job of job", wantReason: "NotInstalled",
		},
		"a removed kind is not installed": {
			change: "Create", answer: missing, wantCall: "create job of job", wantReason: "NotInstalled",
		},
		"a rejected creation is a refusal": {
			change: "Create", answer: forbidden, wantCall: "create job of job", wantReason: "CreateFailed",
		},
		"a PodGroup is updated": {change: "Update", wantCall: patch},
		"a rejected update is a refusal": {
			change: "Update", answer: forbidden, wantCall: patch, wantReason: "UpdateFailed",
		},
		"a conflict of an update is an error": {
			change: "Update", answer: conflict, wantCall: patch, wantFailure: true,
		},
		"an update of a deleted PodGroup is an error": {
			change: "Update", answer: missing, wantCall: patch, wantFailure: true,
		},
		"a PodGroup is deleted": {change: "Delete", wantCall: "delete group-uid"},
		"a deletion of a deleted PodGroup is ignored": {
			change: "Delete", answer: missing, wantCall: "delete group-uid",
		},
		"a deletion of a replaced PodGroup is ignored": {
			change: "Delete", answer: conflict, wantCall: "delete group-uid",
		},
		"a rejected deletion is an error": {
			change: "Delete", answer: forbidden, wantCall: "delete group-uid", wantFailure: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &groups{apiServer{answer: tc.answer, owner: tc.owner}}
			podGroups := dependents.NewPodGroups(dependents.Cluster{Client: api, APIReader: api})
			wanted := group(1)
			wanted.Labels = map[string]string{batchv1beta1.LabelJobName: "job"}
			change := changeOf(tc.change, group(2), wanted)
			if change.Seen != nil {
				change.Seen.SetLabels(wanted.Labels)
			}
			err := podGroups.Apply(t.Context(), newOwnerJob(), change)
			var refused *report.RefusedError
			reason := ""
			if errors.As(err, &refused) {
				reason = refused.Reason
			}
			diff(t, "reason", tc.wantReason, reason)
			diff(t, "failure", tc.wantFailure, err != nil && refused == nil)
			var want []string
			if tc.wantCall != "" {
				want = []string{tc.wantCall}
			}
			diff(t, "calls", want, slices.Clone(api.calls))
		})
	}
}
