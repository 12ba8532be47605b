package convert

import (
	"cmp"
	"context" //nolint:depguard // the validation has the signature of the API server, and is a pure function
	"encoding/json"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/common/framework"
)

// remarkOnRejected remarks on the fields that make the API server reject a job.
func (r *result) remarkOnRejected() error {
	job, isJob := r.object.(framework.Job)
	if !isJob {
		return nil
	}
	definition, err := jobs.KindOf(job).Definition()
	if err != nil {
		return err
	}
	content, err := json.Marshal(job)
	if err != nil {
		return err
	}
	_, err = definition.Create(context.Background(), cmp.Or(job.GetNamespace(), metav1.NamespaceDefault), content)
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil {
		return err
	}
	for _, cause := range status.ErrStatus.Details.Causes {
		field := cause.Field
		switch {
		case field == "<nil>": // this cause only reports that some rules were not checked
			continue
		case field != "metadata": // rules on the name report only the path metadata
		case job.GetName() == "":
			field = "metadata.generateName"
		default:
			field = "metadata.name"
		}
		r.remarks = append(r.remarks, Remark{Rejected, r.fieldOf(field), "", cause.Message + ".", field})
	}
	return nil
}
