package convert

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestVariablesInFlagsOfTorchrun(t *testing.T) {
	t.Parallel()
	const elastic = "elasticPolicy: {minReplicas: 1, maxReplicas: 3, maxRestarts: 5}, "
	const unset = "Neither env nor the controller sets this variable in all main containers. Unless envFrom does, " +
		"torchrun gets the reference instead of a value."
	for name, tc := range map[string]struct {
		spec, command, env string
		// want are the fields of the torchrunConfig. Nil means that only procPerNode is set, to the default of Kubeflow.
		want map[string]any
		// remarks maps the value of each remark about a flag to the text of the remark. Remarks about the rendezvous are
		// left out.
		remarks map[string]string
	}{
		"the world size is the number of replicas": {
			command: "--nnodes=$(WORLD_SIZE), --nproc_per_node, $(PET_NPROC_PER_NODE), a.py",
		},
		"the world size replaces a range": {command: `"--nnodes=$(WORLD_SIZE):$(WORLD_SIZE)", a.py`},
		"the world size of several processes is not the number of replicas": {
			spec: `nprocPerNode: "4", `, command: "--nnodes=$(WORLD_SIZE), a.py",
			want: map[string]any{"procPerNode": "4"},
			remarks: map[string]string{
				"--nnodes=$(WORLD_SIZE)": "The controller sets --nnodes=3, and not the WORLD_SIZE of Kubeflow.",
			},
		},
		"the limits of an elastic job replace the world size": {
			spec: elastic, command: "--nnodes=$(WORLD_SIZE), a.py",
			want: map[string]any{"procPerNode": "auto", "maxRestarts": 5.0},
			remarks: map[string]string{
				"--nnodes=$(WORLD_SIZE)": "The controller sets --nnodes=1:3, and not the WORLD_SIZE of Kubeflow.",
			},
		},
		"a range with the world size can be the one of an elastic job": {
			spec: elastic, command: `"--nnodes=1:$(WORLD_SIZE)", a.py`,
			want: map[string]any{"procPerNode": "auto", "maxRestarts": 5.0},
		},
		"a variable of the template is replaced with its value": {
			command: "--nnodes=$(NODES), --nproc_per_node=$(PROCS), --max_restarts=$(RESTARTS), a.py",
			env:     `{name: NODES, value: "3"}, {name: PROCS, value: "2"}, {name: RESTARTS, value: "1"}`,
			want:    map[string]any{"procPerNode": "2", "maxRestarts": 1.0},
		},
		"a variable whose value another object has is kept": {
			command: "--nproc_per_node=$(PROCS), a.py", env: "{name: PROCS, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}",
			want: map[string]any{"extraOptions": []any{"--nproc_per_node=$(PROCS)"}},
		},
		"a remark names a variable that nothing sets": {
			command: "--nproc_per_node=$(PROCS), a.py", want: map[string]any{"extraOptions": []any{"--nproc_per_node=$(PROCS)"}},
			remarks: map[string]string{"PROCS": unset},
		},
		"a remark names a variable that only Kubeflow sets": {
			command: `"--log_dir=/$(MASTER_ADDR)/$(RANK)", a.py`,
			want:    map[string]any{"procPerNode": "auto", "extraOptions": []any{"--log_dir=/$(MASTER_ADDR)/$(RANK)"}},
			remarks: map[string]string{"RANK": unset},
		},
		"a variable that a shell replaces is the same": {
			command: `sh, -c, "torchrun --nnodes=$WORLD_SIZE --node_rank=${RANK} --rdzv_endpoint=$MASTER_ADDR:29500 a.py"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := tc.command
			if !strings.HasPrefix(command, "sh,") {
				command = "torchrun, " + command
			}
			template := "template: {spec: {containers: [{name: pytorch, image: a, command: [" + command + "], " +
				"env: [" + tc.env + "]}]}}"
			object, spec := convertedJob(t, pyTorchJob(tc.spec+
				"pytorchReplicaSpecs: {Master: {"+template+"}, Worker: {replicas: 2, "+template+"}}"))
			config, _ := spec["torchrunConfig"].(map[string]any)
			want := map[string]any{"enabled": true}
			if tc.want == nil {
				want["procPerNode"] = "auto"
			}
			maps.Copy(want, tc.want)
			if diff := cmp.Diff(want, config); diff != "" {
				t.Errorf("unexpected torchrunConfig (-want +got):\n%s", diff)
			}
			remarks := map[string]string{}
			for _, r := range object.Remarks {
				isOfRendezvous := strings.HasPrefix(r.Text, "The controller sets the rendezvous.")
				if strings.HasSuffix(r.Field, ".command") && !isOfRendezvous {
					remarks[r.Value] = r.Text
				}
			}
			if diff := cmp.Diff(tc.remarks, remarks, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("unexpected remarks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheFlagOverridesTheFieldWithTheNumberOfProcesses(t *testing.T) {
	t.Parallel()
	for field, spec := range map[string]string{
		"spec.nprocPerNode":               `nprocPerNode: "4", `,
		"spec.elasticPolicy.nProcPerNode": "elasticPolicy: {minReplicas: 1, maxReplicas: 2, nProcPerNode: 4}, ",
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			object, _ := convertedJob(t, pyTorchJob(spec+"pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: "+
				"{containers: [{name: pytorch, image: a, command: [torchrun, --nproc_per_node=2, a.py]}]}}}}"))
			var got []string
			for _, r := range object.Remarks {
				if r.Text == "The flag --nproc_per_node of the command overrides it." {
					got = append(got, r.Field+" "+r.Value)
				}
			}
			if diff := cmp.Diff([]string{field + " 4"}, got); diff != "" {
				t.Errorf("unexpected fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVariablesThatKubeflowOverrides(t *testing.T) {
	t.Parallel()
	const env = `{name: A, value: a}, {name: RANK, value: "0"}, {name: MASTER_ADDR, value: b}`
	const replica = "{template: {spec: {containers: [{name: pytorch, image: a, command: [python3, a.py], " +
		"env: [" + env + "]}]}}}"
	for replicas, want := range map[string]int{"Master": 1, "Worker": 3} { // without a master, Kubeflow sets no variables
		object, spec := convertedJob(t, pyTorchJob("pytorchReplicaSpecs: {"+replicas+": "+replica+"}"))
		content, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(content), `"value":`); got != want {
			t.Errorf("the %s has %d variables, want %d: %s", replicas, got, want, content)
		}
		overridden := 0
		for _, r := range object.Remarks {
			if r.Effect == NotMapped && strings.Contains(r.Field, ".env[") {
				overridden++
			}
		}
		if overridden != 3-want {
			t.Errorf("%d remarks name variables of the %s, want %d", overridden, replicas, 3-want)
		}
	}
}
