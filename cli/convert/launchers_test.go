package convert

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/cli/docs"
	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

func TestParseTorchrun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		command string
		want    *launch
		err     string
	}{
		"flags with a value in the same word and in the next one": {
			command: "torchrun --nnodes=2 --nproc_per_node 4 --max-restarts=3 train.py --nnodes=9",
			want: &launch{
				launcher: "torchrun", nodes: "2", procs: "4", maxRestarts: "3", program: []string{"train.py", "--nnodes=9"},
			},
		},
		"flags of the rendezvous": {
			command: "torchrun --rdzv-backend=etcd --rdzv_endpoint=etcd:2379 --rdzv_conf=a=b --rdzv_id job train.py",
			want: &launch{
				launcher: "torchrun", backend: "etcd", endpoint: "etcd:2379", hasConf: true,
				options: []string{"--rdzv_conf=a=b"}, superseded: []string{"--rdzv_id job"}, program: []string{"train.py"},
			},
		},
		"flags that the controller sets in another way": {
			command: "torchrun --node_rank=0 --master_addr a --master_port=1 --standalone train.py",
			want: &launch{
				launcher: "torchrun", standalone: true, program: []string{"train.py"},
				superseded: []string{"--node_rank=0", "--master_addr a", "--master_port=1"},
			},
		},
		"flags with the variable that torchrun reads without them": {
			command: "torchrun --nnodes=$(PET_NNODES) --nproc-per-node $(PET_NPROC_PER_NODE) --node_rank=$(PET_NODE_RANK) " +
				"--rdzv_conf=$(PET_RDZV_CONF) --max_restarts=$(PET_MAX_RESTARTS) train.py",
			want: &launch{launcher: "torchrun", program: []string{"train.py"}},
		},
		"flags with other variables": {
			command: "torchrun --nnodes=$(WORLD_SIZE) --node-rank $(RANK) --rdzv_endpoint=$(MASTER_ADDR):29500 train.py",
			want: &launch{
				launcher: "torchrun", nodes: "$(WORLD_SIZE)", endpoint: "$(MASTER_ADDR):29500",
				superseded: []string{"--node-rank $(RANK)"}, program: []string{"train.py"},
			},
		},
		"other flags are kept as they are": {
			command: "torchrun --monitor-interval 1 -t 3 --log_dir=/logs -m digits.train -v",
			want: &launch{
				launcher: "torchrun", options: []string{"--monitor-interval", "1", "-t", "3", "--log_dir=/logs", "-m"},
				program: []string{"digits.train", "-v"},
			},
		},
		"a path": {
			command: "/opt/conda/bin/torchrun train.py",
			want:    &launch{launcher: "/opt/conda/bin/torchrun", program: []string{"train.py"}},
		},
		"the module of torchrun": {
			command: "python3.11 -u -m torch.distributed.run --nnodes=1:2 train.py",
			want:    &launch{launcher: "python3.11 -u -m torch.distributed.run", nodes: "1:2", program: []string{"train.py"}},
		},
		"the old launcher passes the local rank": {
			command: "python -m torch.distributed.launch train.py",
			want: &launch{
				launcher: "python -m torch.distributed.launch", passesLocalRank: true, program: []string{"train.py"},
			},
		},
		"the old launcher can set a variable instead": {
			command: "python -m torch.distributed.launch --use_env train.py",
			want:    &launch{launcher: "python -m torch.distributed.launch", program: []string{"train.py"}},
		},
		"an unknown flag":          {command: "torchrun --new train.py", err: "the flag --new is none that torchrun"},
		"a switch with a value":    {command: "torchrun --standalone=1 train.py", err: "the flag --standalone=1 is none"},
		"a flag without a value":   {command: "torchrun --nnodes", err: "the flag --nnodes has no value"},
		"no script":                {command: "torchrun --nnodes=2", err: "torchrun has no script"},
		"another module of Python": {command: "python -m accelerate train.py", err: errOtherProgram.Error()},
		"a script of Python":       {command: "python train.py -m torch.distributed.run", err: errOtherProgram.Error()},
		"Python with other flags":  {command: "python -O -m torch.distributed.run train.py", err: errOtherProgram.Error()},
		"another program":          {command: "accelerate launch train.py", err: errOtherProgram.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(tc.command)
			for _, command := range [][]string{words, {"bash", "-c", tc.command}} {
				got, err := parseTorchrun(command)
				if tc.err != "" {
					if err == nil || !strings.Contains(err.Error(), tc.err) {
						t.Errorf("the error of %q is %v, want %q", command, err, tc.err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(launch{})); diff != "" {
					t.Errorf("unexpected launch by %q (-want +got):\n%s", command, diff)
				}
			}
		})
	}
	_, err := parseTorchrun([]string{"sh", "-c", "cd /code && torchrun train.py"})
	if err == nil || errors.Is(err, errOtherProgram) {
		t.Errorf("the error of a script with torchrun is %v", err)
	}
	if _, err := parseTorchrun([]string{"sh", "-c", "cd /code && ./train"}); !errors.Is(err, errOtherProgram) {
		t.Errorf("the error of another script is %v, want %v", err, errOtherProgram)
	}
}

func TestParseMPIRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		flags string
		want  *mpirun
		err   string
	}{
		"Open MPI": {
			flags: "-np 4 --allow-run-as-root -bind-to none --map-by=slot -mca btl ^openib -x A=1 -x B -N 2 python a.py -np 1",
			want: &mpirun{
				processes: "4", perNode: "2", variables: []corev1.EnvVar{{Name: "A", Value: "1"}}, exported: []string{"B"},
				others:  []string{"--allow-run-as-root", "-bind-to none", "--map-by=slot", "-mca btl ^openib"},
				program: []string{"python", "a.py", "-np", "1"},
			},
		},
		"Intel MPI and MPICH": {
			flags: "-n 4 -ppn 2 -genv A 1 -genvlist B,C -genvall -f /etc/mpi/hostfile ./train",
			want: &mpirun{
				processes: "4", perNode: "2", variables: []corev1.EnvVar{{Name: "A", Value: "1"}}, exported: []string{"B", "C"},
				exportsAll: true, others: []string{"-f /etc/mpi/hostfile"}, program: []string{"./train"},
			},
		},
		"one process for each node":      {flags: "-pernode ./a", want: &mpirun{perNode: "1", program: []string{"./a"}}},
		"an unknown flag":                {flags: "-np 2 --new x ./train", err: "the flag --new, which is not known"},
		"two values after an equal sign": {flags: "-genv=A ./train", err: "the flag -genv=A, which is not known"},
		"a flag without a value":         {flags: "-mca btl", err: "the flag -mca of mpirun has no value"},
		"no program":                     {flags: "-np 2", err: "mpirun has no program"},
		"several programs":               {flags: "-np 1 ./a : -np 3 ./b", err: "mpirun runs several programs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseMPIRun(strings.Fields(tc.flags))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("the error is %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(mpirun{})); diff != "" {
				t.Errorf("unexpected flags (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		program string
		want    deepspeedv1beta1.RunType
	}{
		"a script":                   {"python3 -u a.py -m x", deepspeedv1beta1.RunType{Python: []string{"a.py", "-m", "x"}}},
		"a module":                   {"python -m a.b -v", deepspeedv1beta1.RunType{Module: []string{"a.b", "-v"}}},
		"an interpreter with a path": {"/bin/python a.py", deepspeedv1beta1.RunType{Exec: []string{"/bin/python", "a.py"}}},
		"an interpreter with flags":  {"python -O a.py", deepspeedv1beta1.RunType{Exec: []string{"python", "-O", "a.py"}}},
		"an interpreter alone":       {"python", deepspeedv1beta1.RunType{Exec: []string{"python"}}},
		"another program":            {"bash a.sh", deepspeedv1beta1.RunType{Exec: []string{"bash", "a.sh"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(&tc.want, runOf(strings.Fields(tc.program))); diff != "" {
				t.Errorf("unexpected program (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseDeepSpeed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		flags      string
		want       *deepspeedv1beta1.Config
		superseded []string
		err        string
	}{
		"flags that have fields": {
			flags: "--no_local_rank --autotuning=run --module digits.train -v",
			want: &deepspeedv1beta1.Config{
				LocalRank: new(bool), Autotune: "run", Run: &deepspeedv1beta1.RunType{Module: []string{"digits.train", "-v"}},
			},
		},
		"other flags": {
			flags: "--num_gpus 2 --master_port=1 --new=x --no_python ./train",
			want: &deepspeedv1beta1.Config{
				OtherArgs: []string{"--num_gpus", "2", "--master_port=1", "--new=x"},
				Run:       &deepspeedv1beta1.RunType{Exec: []string{"./train"}},
			},
		},
		"flags that the controller sets": {
			flags: "--hostfile /etc/mpi/hostfile --launcher=openmpi --force_multi train.py",
			want:  &deepspeedv1beta1.Config{Run: &deepspeedv1beta1.RunType{Python: []string{"train.py"}}},
			superseded: []string{
				"--hostfile /etc/mpi/hostfile", "--launcher=openmpi", "--force_multi",
			},
		},
		"an unknown flag":        {flags: "--new x train.py", err: "the flag --new is none that deepspeed"},
		"a flag without a value": {flags: "--num_gpus", err: "the flag --num_gpus of deepspeed has no value"},
		"no script":              {flags: "--num_gpus=2", err: "deepspeed has no script"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, superseded, err := parseDeepSpeed(strings.Fields(tc.flags))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("the error is %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected config (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.superseded, superseded); diff != "" {
				t.Errorf("unexpected flags that the controller sets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheGuideExists(t *testing.T) {
	t.Parallel()
	for _, text := range []string{guide, mpiGuide, trainGuide} {
		page, ok := strings.CutPrefix(text, "see kubectl train docs ")
		if _, err := docs.Find(strings.ReplaceAll(page, " ", "#")); err != nil || !ok {
			t.Errorf("%q leads to no section: %v", text, err)
		}
	}
}
