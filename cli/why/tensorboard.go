package why

import (
	"slices"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// aboutTheTensorBoard returns the findings about the TensorBoard of the job.
func (v view) aboutTheTensorBoard() []Finding {
	var findings []Finding
	add := func(c condition, table map[string]entry) {
		weight := quiet
		isNew := !slices.ContainsFunc(findings, func(f Finding) bool { return f.Reason == c.reason })
		if isNew && (tensorBoard[c.reason].needsHelp || tensorBoardUse[c.reason].needsHelp) {
			weight = note
		}
		findings = append(findings, v.finding(c, weight, table))
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
