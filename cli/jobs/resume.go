package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

// Operation is an operation of a JSON patch.
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// ResumeWithArgs returns the JSON patch that resumes a paused job with other args, and the types whose args change.
// If the parameter types is empty, the args change for the type of the leader and for all types with the same command
// line. The API server rejects the patch if another job has the name now, or if the types or main containers are at
// other positions in the spec now.
//
// The patch changes the templates or, in a DeepSpeedJob, spec.config.run. It cannot use
// spec.runMode.pause.resumeSpecs, since the API server rejects changes of this field.
func ResumeWithArgs(job Job, types, args []string) (patch []byte, changed []string, err error) {
	var operations []Operation
	switch object := job.Job.(type) {
	case *deepspeedv1beta1.DeepSpeedJob:
		changed = []string{deepspeedv1beta1.WorkerType}
		operations, err = programOf(object, args)
	default:
		operations, changed, err = templateArgs(job, types, args)
	}
	if err == nil {
		err = checkTypes(job, types)
	}
	if err == nil && len(operations) == 0 {
		err = fmt.Errorf("resume cannot change the args of %s: change them with kubectl edit while it is paused", job.Ref())
	}
	if err == nil {
		err = checkResumeSpecs(job, changed)
	}
	if err != nil {
		return nil, nil, err
	}
	operations = append(operations,
		Operation{Op: "test", Path: "/metadata/uid", Value: job.GetUID()},
		Operation{Op: "add", Path: "/spec/runMode/pause/enabled", Value: false})
	patch, err = json.Marshal(operations)
	return patch, changed, err
}

// programOf returns the operations that replace the training program of a DeepSpeedJob.
func programOf(job *deepspeedv1beta1.DeepSpeedJob, args []string) ([]Operation, error) {
	switch config := job.Spec.Config; {
	case config == nil || config.CustomCommand != "" || config.Run == nil:
		return nil, errors.New("spec.config.customCommand launches the training, which takes no ARGS: change it with " +
			"kubectl edit while the job is paused, and resume the job without ARGS")
	case len(config.Run.Module) > 0:
		return []Operation{{Op: "replace", Path: "/spec/config/run/module", Value: args}},
			checkProgram(deepspeedv1beta1.WorkerType, config.Run.Module[:1], args)
	case len(config.Run.Exec) > 0:
		return []Operation{{Op: "replace", Path: "/spec/config/run/exec", Value: args}}, nil
	default:
		return []Operation{{Op: "replace", Path: "/spec/config/run/python", Value: args}},
			checkProgram(deepspeedv1beta1.WorkerType, programIn(config.Run.Python), args)
	}
}

// programIn returns the Python program, or -m and the module, at the beginning of a command line. It returns nil if
// the command line begins with neither.
func programIn(args []string) []string {
	switch {
	case len(args) > 0 && path.Ext(args[0]) == ".py":
		return args[:1]
	case len(args) > 1 && args[0] == "-m":
		return args[:2]
	}
	return nil
}

// checkProgram returns an error if the present args of a type begin with a program, but the new args have only
// options.
func checkProgram(roleType string, program, args []string) error {
	namesProgram := func(arg string) bool { return arg == "-m" || path.Ext(arg) == ".py" }
	if len(program) == 0 || !strings.HasPrefix(args[0], "-") || slices.ContainsFunc(args, namesProgram) {
		return nil
	}
	return fmt.Errorf("the args of type %s begin with the program: repeat it, as in -- %s",
		roleType, strings.Join(slices.Concat(program, args), " "))
}

// templateArgs returns the operations that replace the args of the main containers in the templates, and the types
// whose args change.
func templateArgs(job Job, types, args []string) (operations []Operation, changed []string, err error) {
	roles := job.Spec().Roles
	if len(types) == 0 && len(roles) > 0 {
		for _, role := range roles {
			if hasSameCommandLine(job.Kind, role, roles[0]) {
				types = append(types, role.Type)
			}
		}
	}
	inSpec, err := specTypes(job.Job)
	if err != nil {
		return nil, nil, err
	}
	for i, roleType := range inSpec {
		at := slices.IndexFunc(roles, func(r framework.Role) bool { return r.Type == roleType })
		if !slices.Contains(types, roleType) || at < 0 {
			continue
		}
		containers := roles[at].Template.Spec.Containers
		main := framework.MainContainer(job.Kind.MainContainers, containers)
		for k := range containers {
			if &containers[k] == main {
				spec := fmt.Sprintf("/spec/replicaSpecs/%d", i)
				container := fmt.Sprintf("%s/template/spec/containers/%d", spec, k)
				operations = append(operations,
					Operation{Op: "test", Path: spec + "/type", Value: roleType},
					Operation{Op: "test", Path: container + "/name", Value: main.Name},
					Operation{Op: "add", Path: container + "/args", Value: args})
			}
		}
		changed = append(changed, roleType)
		if main != nil {
			err = errors.Join(err, checkProgram(roleType, programIn(main.Args), args))
		}
	}
	return operations, changed, err
}

// hasSameCommandLine reports whether the main containers of two roles have the same command and args.
func hasSameCommandLine(kind *Kind, a, b framework.Role) bool {
	x := framework.MainContainer(kind.MainContainers, a.Template.Spec.Containers)
	y := framework.MainContainer(kind.MainContainers, b.Template.Spec.Containers)
	return x != nil && y != nil && slices.Equal(x.Command, y.Command) && slices.Equal(x.Args, y.Args)
}

// specTypes returns the types of spec.replicaSpecs in the order of the spec. If jobs of the kind have no such field, it
// returns none.
func specTypes(job framework.Job) ([]string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
	if err != nil {
		return nil, err
	}
	specs, _, _ := unstructured.NestedSlice(content, "spec", "replicaSpecs") // an error means that the field is null
	types := make([]string, 0, len(specs))
	for _, spec := range specs {
		fields, _ := spec.(map[string]any)
		types = append(types, fmt.Sprint(fields["type"]))
	}
	return types, nil
}

// checkTypes returns an error if the job does not have one of the types.
func checkTypes(job Job, types []string) error {
	for _, roleType := range types {
		if !slices.ContainsFunc(job.Spec().Roles, func(r framework.Role) bool { return r.Type == roleType }) {
			var known []string
			for _, role := range job.Spec().Roles {
				known = append(known, role.Type)
			}
			return fmt.Errorf("%s has no type %q: its types are %q", job.Ref(), roleType, known)
		}
	}
	return nil
}

// checkResumeSpecs returns an error if the resumeSpecs of the job override the command or the args of one of the
// types. The resumeSpecs apply only to a job that has been paused after its start.
func checkResumeSpecs(job Job, types []string) error {
	mode := job.Spec().RunMode
	if mode == nil || mode.Pause == nil || job.JobStatus().Pauses == 0 {
		return nil
	}
	overrides := func(s batchv1beta1.ResumeSpec) bool {
		return slices.Contains(types, s.Type) && (len(s.Args) > 0 || len(s.Command) > 0)
	}
	if i := slices.IndexFunc(mode.Pause.ResumeSpecs, overrides); i >= 0 {
		return fmt.Errorf("spec.runMode.pause.resumeSpecs sets how type %s of %s starts after a pause, and it cannot be "+
			"changed: resume the job without ARGS, or create another job", mode.Pause.ResumeSpecs[i].Type, job.Ref())
	}
	return nil
}
