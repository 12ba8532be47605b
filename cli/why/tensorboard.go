package why

import (
	"slices"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// boardTroubles are the reasons of a TensorBoard that the text of the explanation mentions, because somebody might
// have to act.
var boardTroubles = []string{
	tensorboardv1beta1.ReasonCulled, tensorboardv1beta1.ReasonClaimNotReady, tensorboardv1beta1.ReasonClaimExclusive,
	tensorboardv1beta1.ReasonCrashing, tensorboardv1beta1.ReasonProbeFailed, tensorboardv1beta1.ReasonFetchFailed,
	batchv1beta1.ReasonNotInstalled, batchv1beta1.ReasonReadFailed, batchv1beta1.ReasonUpdateFailed,
	batchv1beta1.ReasonDeleteFailed, batchv1beta1.ReasonUnschedulable, batchv1beta1.ReasonImagePull,
	batchv1beta1.ReasonContainerConfig, batchv1beta1.ReasonNameConflict, batchv1beta1.ReasonCreateFailed,
	schedulerv1beta1.ReasonQueueNotFound, schedulerv1beta1.ReasonQueueClosed,
	schedulerv1beta1.ReasonNamespaceNotSelected, schedulerv1beta1.ReasonQuotaExceeded,
	schedulerv1beta1.ReasonEngineNotReady, schedulerv1beta1.ReasonPriorityClassMismatch,
}

// aboutTheTensorBoard returns the findings about the TensorBoard of the job.
func (v view) aboutTheTensorBoard() []Finding {
	var findings []Finding
	add := func(c condition, tables ...map[string]entry) {
		weight := quiet
		if slices.Contains(boardTroubles, c.reason) && !slices.ContainsFunc(findings, func(f Finding) bool {
			return f.Reason == c.reason
		}) {
			weight = note
		}
		findings = append(findings, v.finding(c, weight, tables...))
	}
	if s := v.boardStatus(); s != nil && s.Reason != "" {
		add(condition{object: v.Job.Ref(), name: "status.tensorboard", reason: s.Reason, message: s.Note}, tensorBoard)
	}
	if v.TensorBoard == nil {
		return findings
	}
	for _, c := range v.TensorBoard.Status.Conditions {
		add(condition{
			object: "tensorboard/" + v.TensorBoard.Name, name: c.Type, reason: c.Reason, message: c.Message,
			since: c.LastTransitionTime.Time,
		}, tableOf(c.Type))
	}
	return findings
}

// tableOf returns the table with the reasons of a condition of a TensorBoard.
func tableOf(conditionType string) map[string]entry {
	if conditionType == tensorboardv1beta1.ConditionReady {
		return tensorBoard
	}
	return tensorBoardUse
}

// boardStatus returns the status of the TensorBoard in the status of the job, or nil.
func (v view) boardStatus() *batchv1beta1.DependentStatus {
	if owner, ok := v.Job.Job.(framework.TensorBoardJob); ok {
		return owner.TensorBoardStatus()
	}
	return nil
}
