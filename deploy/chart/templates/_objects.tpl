{{- /*
Renders the objects of a file for the release. kustomize builds the files from deploy/, so a chart installs the same objects as
`kubectl apply -k`. All changes by the values are in this template.
The argument is a dict of root, file and clusterScoped. If clusterScoped is true, the objects stay cluster-scoped even if the controller is limited
to a namespace.
*/ -}}
{{- define "objects" -}}
{{- $root := .root }}
{{- $scope := ternary "ofrelease" "namespaced" (.clusterScoped | default false) }}
{{- range splitList "\n---\n" ($root.Files.Get .file) }}
{{- $object := fromYaml . }}
{{- if eq (include "wanted" (dict "values" $root.Values "kind" $object.kind)) "true" }}
{{- if $root.Values.namespaced }}{{ include $scope (dict "root" $root "object" $object) }}{{ end }}
{{- if $object.metadata.namespace }}{{ $_ := set $object.metadata "namespace" $root.Release.Namespace }}{{ end }}
{{- range $object.subjects }}
{{- if ne (.namespace | default "") "kueue-system" }}{{ $_ := set . "namespace" $root.Release.Namespace }}{{ end }}
{{- end }}
{{- if eq $object.metadata.name (printf "tensorstack-%s" $root.Chart.Name) }}{{ include "role" (dict "values" $root.Values "object" $object) }}{{ end }}
{{- if eq $object.kind "Deployment" }}{{ include "deployment" (dict "root" $root "object" $object) }}{{ end }}
{{- if eq $object.kind "ServiceMonitor" }}{{ include "servicemonitor" (dict "values" $root.Values "object" $object) }}{{ end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Returns whether to install objects of the kind. Helm creates the namespace of a release itself. */ -}}
{{- define "wanted" -}}
{{- if eq .kind "Namespace" }}false
{{- else if eq .kind "PodDisruptionBudget" }}{{ .values.podDisruptionBudget.enabled }}
{{- else if eq .kind "NetworkPolicy" }}{{ .values.networkPolicy.enabled }}
{{- else if hasPrefix "MutatingAdmissionPolicy" .kind }}{{ .values.mutatingAdmissionPolicies }}
{{- else }}true
{{- end }}
{{- end }}

{{- /* Turns ClusterRoles and their bindings into Roles and RoleBindings. */ -}}
{{- define "namespaced" -}}
{{- with .object }}
{{- if hasPrefix "ClusterRole" .kind }}
{{- $_ := set . "kind" (trimPrefix "Cluster" .kind) }}
{{- $_ := set .metadata "namespace" "the release's" }}
{{- with .roleRef }}{{ $_ := set . "kind" "Role" }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Appends the namespace to the names of cluster-scoped objects, so that releases in several namespaces do not share them. */ -}}
{{- define "ofrelease" -}}
{{- $suffix := printf "-%s" .root.Release.Namespace }}
{{- $_ := set .object.metadata "name" (print .object.metadata.name $suffix) }}
{{- with .object.roleRef }}{{ $_ := set . "name" (print .name $suffix) }}{{ end }}
{{- if eq .object.kind "ValidatingAdmissionPolicyBinding" }}
{{- $_ := set .object.spec "policyName" (print .object.spec.policyName $suffix) }}
{{- end }}
{{- end }}

{{- /* Adds the permissions that only some values need. The binding has the same name, but no rules. */ -}}
{{- define "role" -}}
{{- if and .object.rules (.values.networkPolicies | default dict).enabled }}
{{- $verbs := list "get" "list" "watch" "create" "patch" }}
{{- $rule := dict "apiGroups" (list "networking.k8s.io") "resources" (list "networkpolicies") "verbs" $verbs }}
{{- $_ := set .object "rules" (append .object.rules $rule) }}
{{- end }}
{{- end }}

{{- define "servicemonitor" -}}
{{- $_ := set .object.metadata "labels" (merge (dict) .values.serviceMonitor.labels .object.metadata.labels) }}
{{- if .values.metrics.secure }}
{{- $endpoint := index .object.spec.endpoints 0 }}
{{- $_ := set $endpoint "scheme" "https" }}
{{- $_ := set $endpoint "bearerTokenFile" "/var/run/secrets/kubernetes.io/serviceaccount/token" }}
{{- $_ := set $endpoint "tlsConfig" (dict "insecureSkipVerify" true) }}
{{- end }}
{{- end }}

{{- define "deployment" -}}
{{- $values := .root.Values }}
{{- $_ := set .object.spec "replicas" (int $values.replicas) }}
{{- $template := .object.spec.template }}
{{- $_ := set $template.metadata "labels" (merge $template.metadata.labels $values.podLabels) }}
{{- with $values.podAnnotations }}{{ $_ := set $template.metadata "annotations" . }}{{ end }}
{{- $pod := $template.spec }}
{{- range $field := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with index $values $field }}{{ $_ := set $pod $field . }}{{ end }}
{{- end }}
{{- $container := index $pod.containers 0 }}
{{- $image := printf "%s:%s" $values.image.repository ($values.image.tag | default .root.Chart.AppVersion) }}
{{- with $values.image.digest }}{{ $image = printf "%s@%s" $values.image.repository . }}{{ end }}
{{- $_ := set $container "image" $image }}
{{- with $values.image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" . }}{{ end }}
{{- $_ := set $container "resources" $values.resources }}
{{- $args := $container.args | default list }}
{{- if $values.namespaced }}{{ $args = append $args "--namespace=$(POD_NAMESPACE)" }}{{ end }}
{{- with $values.networkPolicies }}
{{- if .enabled }}{{ $args = append $args "--network-policies" }}{{ end }}
{{- with .allowNamespaces }}{{ $args = append $args (printf "--network-policy-allow-namespaces=%s" .) }}{{ end }}
{{- end }}
{{- if $values.metrics.secure }}{{ $args = append $args "--metrics-secure" }}{{ end }}
{{- with concat $args $values.args }}{{ $_ := set $container "args" . }}{{ end }}
{{- end }}
