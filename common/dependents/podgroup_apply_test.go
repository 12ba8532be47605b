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

func TestPodGroupWakesItsJob(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change jobtest.GroupOption
		want   bool
	}{
		"it is admitted": {change: admitted, want: true},
		"it is scheduled": {
			change: withCondition("GroupScheduled", metav1.ConditionTrue, "Scheduled", ""), want: true,
		},
		"its spec changes":          {change: edited, want: true},
		"it is being deleted":       {change: deletingGroup, want: true},
		"it is no longer the job's": {change: foreignGroup, want: true},
		"it is another one":         {change: func(g *schedulerv1beta1.PodGroup) { g.UID = "another" }, want: true},
		"its pods are counted":      {change: func(g *schedulerv1beta1.PodGroup) { g.Status.Running = 3 }},
		"there are enough pods": {change: func(g *schedulerv1beta1.PodGroup) {
			meta.SetStatusCondition(&g.Status.Conditions, metav1.Condition{Type: "SufficientGroupMember"})
		}},
		"its status speaks of the spec ": {
			change: func(g *schedulerv1beta1.PodGroup) { g.Status.ObservedGeneration = 1 }, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := group(2), group(2, tc.change)
			diff(t, "answer", tc.want, dependents.PodGroupWakes(before, after))
			_, _ = dependents.TransformPodGroup(before)
			_, _ = dependents.TransformPodGroup(after)
			diff(t, "answer of a cache", tc.want, dependents.PodGroupWakes(before, after))
		})
	}
}

// groups is an API server that gives one answer to every change of a PodGroup.
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
		// wantReason is that of a refusal; wantFailure is another error.
		wantReason  string
		wantFailure bool
	}{
		"nothing":       {},
		"it is created": {change: "Create", wantCall: "create job of job"},
		"it was created": {
			change: "Create", answer: exists, owner: "job-uid", wantCall: "create job of job", wantFailure: true,
		},
		"there is one of the name": {
			change: "Create", answer: exists, owner: "other", wantCall: "create job of job", wantReason: "NameConflict",
		},
		"there is no such kind": {
			change: "Create", answer: &meta.NoKindMatchError{}, wantCall: "create job of job", wantReason: "NotInstalled",
		},
		"there is none any more": {
			change: "Create", answer: missing, wantCall: "create job of job", wantReason: "NotInstalled",
		},
		"it is refused": {
			change: "Create", answer: forbidden, wantCall: "create job of job", wantReason: "CreateFailed",
		},
		"it is changed":         {change: "Update", wantCall: patch},
		"a change is refused":   {change: "Update", answer: forbidden, wantCall: patch, wantReason: "UpdateFailed"},
		"somebody was faster":   {change: "Update", answer: conflict, wantCall: patch, wantFailure: true},
		"somebody deleted it":   {change: "Update", answer: missing, wantCall: patch},
		"it is deleted":         {change: "Delete", wantCall: "delete group-uid"},
		"it is gone":            {change: "Delete", answer: missing, wantCall: "delete group-uid"},
		"there is another one":  {change: "Delete", answer: conflict, wantCall: "delete group-uid"},
		"a deletion is refused": {change: "Delete", answer: forbidden, wantCall: "delete group-uid", wantFailure: true},
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
