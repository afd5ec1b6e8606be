{{- /* Names and labels. `.component` is gateway or engine, `.root` the chart's own context. */ -}}

{{- define "specgate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* At most 48 characters: labels have 63, of which Kubernetes uses 11 for a StatefulSet's revision
       and LeaderWorkerSet a few for a number. */ -}}
{{- define "specgate.name" -}}
{{- printf "%s-%s" (include "specgate.fullname" .root) .component -}}
{{- end -}}

{{- /* The workload of the engine's pods. LeaderWorkerSet creates a headless Service of its own name that
       includes pods which are not ready, so our Service needs a different name. */ -}}
{{- define "specgate.engine.workload" -}}
{{- $groups := .Values.engine.multiNode.enabled -}}
{{- include "specgate.name" (dict "root" . "component" (ternary "group" "engine" $groups)) -}}
{{- end -}}

{{- /* The labels that selectors use; they never change during the life of a release. */ -}}
{{- define "specgate.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- /* The labels of the pods that serve: of a LeaderWorkerSet's group only the leader does. */ -}}
{{- define "specgate.serving" -}}
{{ include "specgate.selector" . }}
{{- if and (eq .component "engine") .root.Values.engine.multiNode.enabled }}
leaderworkerset.sigs.k8s.io/worker-index: "0"
{{- end }}
{{- end -}}

{{- define "specgate.labels" -}}
{{ include "specgate.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: specgate
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | quote }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Labels of pods. They have no versions: a new chart alone must not restart workers. */ -}}
{{- define "specgate.podLabels" -}}
{{ include "specgate.selector" . }}
{{- range list .root.Values.commonLabels (index .root.Values .component).podLabels }}
{{- with . }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "specgate.serviceAccountName" -}}
{{- $account := (index .root.Values .component).serviceAccount -}}
{{- if $account.name -}}
{{ $account.name }}
{{- else -}}
{{- ternary (include "specgate.name" .) "default" $account.create -}}
{{- end -}}
{{- end -}}

{{- define "specgate.image" -}}
{{- if .digest -}}
{{ printf "%s@%s" .repository .digest | quote }}
{{- else -}}
{{ printf "%s:%s" .repository .tag | quote }}
{{- end -}}
{{- end -}}

{{- /* "true" if an InferencePool has the workers, else nothing. */ -}}
{{- define "specgate.pool.engine" -}}
{{- if and .Values.inferencePool.enabled (eq .Values.inferencePool.members "engine") -}}
true
{{- end -}}
{{- end -}}
