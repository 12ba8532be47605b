package model

import (
	"encoding/json"
	"reflect"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// patchStatus applies a merge patch to the status of a job. It returns NotFound if the job does not exist, and Conflict
// if the resourceVersion in the patch is not the current one.
func (c *Cluster) patchStatus(object client.Object, patch client.Patch) error {
	current, ok := c.Live()[c.keyOf(object)].(framework.Job)
	if !ok {
		return notFound(kindOf(c.scheme, object), object.GetName())
	}
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	var parts struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Status map[string]json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if version := parts.Metadata.ResourceVersion; version != "" && version != current.GetResourceVersion() {
		return conflict(object, "the object has been modified")
	}
	status, err := merged(*current.JobStatus(), parts.Status)
	if err != nil {
		return err
	}
	patched := copyOf(current)
	*patched.JobStatus() = status
	// The status of the TensorBoard is not a field of JobStatus, but a separate field next to it in the status of the
	// job.
	type beside struct {
		TensorBoard *batchv1beta1.DependentStatus `json:"tensorboard,omitempty"`
	}
	if _, ok := parts.Status["tensorboard"]; ok {
		after, err := merged(beside{TensorBoardStatus(current)}, parts.Status)
		if err != nil {
			return err
		}
		setTensorBoardStatus(patched, after.TensorBoard)
	}
	if !equality.Semantic.DeepEqual(current.JobStatus(), patched.JobStatus()) ||
		!equality.Semantic.DeepEqual(TensorBoardStatus(current), TensorBoardStatus(patched)) {
		c.put(c.keyOf(object), patched)
	}
	return nil
}

// merged applies a JSON merge patch (RFC 7386) to a value, and returns the result. It ignores keys that the value
// does not have. It decodes only the fields that change, since the tests spend most of their time here.
func merged[T any](value T, changes map[string]json.RawMessage) (T, error) {
	for key, change := range changes {
		field := fieldOf(reflect.ValueOf(&value).Elem(), key)
		if !field.IsValid() {
			continue
		}
		if change[0] == '{' {
			before, err := json.Marshal(field.Interface())
			if err != nil {
				return value, err
			}
			if string(before) == "null" {
				before = []byte("{}")
			}
			if change, err = jsonpatch.MergePatch(before, change); err != nil {
				return value, err
			}
		}
		field.SetZero() // the old pointer or slice is shared with other states
		if string(change) == "null" {
			continue
		}
		if err := json.Unmarshal(change, field.Addr().Interface()); err != nil {
			return value, err
		}
	}
	return value, nil
}

// fieldOf returns the field of a struct that has the given JSON key, or the zero Value if there is none.
func fieldOf(value reflect.Value, key string) reflect.Value {
	for i := range value.NumField() {
		field := value.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == key {
			return value.Field(i)
		}
		if field.Anonymous && name == "" {
			if found := fieldOf(value.Field(i), key); found.IsValid() {
				return found
			}
		}
	}
	return reflect.Value{}
}

// patchDependent applies a merge patch to a TensorBoard, a PodGroup, a NetworkPolicy or the status of a Workload. It
// returns NotFound if the object does not exist, and Conflict if the resourceVersion in the patch is not the current
// one.
func (c *Cluster) patchDependent(object client.Object, patch client.Patch) error {
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(data, &changes); err != nil {
		return err
	}
	var patched client.Object
	current := c.Live()[c.keyOf(object)]
	switch current := current.(type) {
	case *tensorboardv1beta1.TensorBoard:
		after, mergeErr := merged(*current, changes)
		patched, err = &after, mergeErr
	case *schedulerv1beta1.PodGroup:
		after, mergeErr := merged(*current, changes)
		patched, err = &after, mergeErr
	case *networkingv1.NetworkPolicy:
		after, mergeErr := merged(*current, changes)
		patched, err = &after, mergeErr
	case *kueuev1beta2.Workload:
		after, mergeErr := merged(*current, changes)
		patched, err = &after, mergeErr
	default:
		return notFound(kindOf(c.scheme, object), object.GetName())
	}
	if err != nil {
		return err
	}
	if patched.GetResourceVersion() != current.GetResourceVersion() {
		return conflict(object, "the object has been modified")
	}
	if _, ok := patched.(*kueuev1beta2.Workload); !ok {
		patched.SetGeneration(current.GetGeneration() + 1)
	}
	c.put(c.keyOf(object), patched)
	return nil
}
