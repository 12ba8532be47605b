package convert

import (
	"cmp"
	"context" //nolint:depguard // the validation has the signature of the API server, and is a pure function
	"encoding/json"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/crd"
	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
	deepspeedconfig "tensorstack.dev/jobs/deepspeed/config"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	pytorchconfig "tensorstack.dev/jobs/pytorch/config"
	tensorflowv1beta1 "tensorstack.dev/jobs/tensorflow/api/v1beta1"
	tensorflowconfig "tensorstack.dev/jobs/tensorflow/config"
)

// definitions maps each job kind to a function that returns its CustomResourceDefinition.
var definitions = map[string]func() (*crd.Definition, error){
	pytorchv1beta1.Kind:    definition(pytorchconfig.CRD),
	tensorflowv1beta1.Kind: definition(tensorflowconfig.CRD),
	deepspeedv1beta1.Kind:  definition(deepspeedconfig.CRD),
}

// definition returns a function that parses a CustomResourceDefinition at its first call and returns the result.
func definition(manifest []byte) func() (*crd.Definition, error) {
	return sync.OnceValues(func() (*crd.Definition, error) { return crd.Parse(manifest) })
}

// remarkOnRejected remarks on the fields that make the API server reject a job.
func (r *result) remarkOnRejected() error {
	parse, isJob := definitions[r.kind()]
	if !isJob {
		return nil
	}
	kind, err := parse()
	if err != nil {
		return err
	}
	content, err := json.Marshal(r.object)
	if err != nil {
		return err
	}
	job := r.object.(metav1.Object) //nolint:forcetypeassert // all kinds have metadata
	_, err = kind.Create(context.Background(), cmp.Or(job.GetNamespace(), metav1.NamespaceDefault), content)
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
