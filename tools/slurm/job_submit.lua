-- Written by `snin slurm install --leaves`. A job that asks for no switches waits a while for the fewest leaves that
-- have room for it: on one leaf it needs no links between switches, on few it needs few trees in common.
local TOPOLOGY, WAIT = "@TOPOLOGY@", @WAIT@

-- The most nodes of a leaf, as the file says now; 0 where it says nothing.
local function leaf_size()
    local most, file = 0, io.open(TOPOLOGY)
    if file == nil then return most end
    for line in file:lines() do
        local nodes = line:match("Nodes=(%S+)")
        if nodes ~= nil then
            local _, commas = nodes:gsub(",", "")
            most = math.max(most, commas + 1)
        end
    end
    file:close()
    return most
end

local function is_set(number)
    return number ~= nil and number > 0 and number < slurm.NO_VAL16
end

function slurm_job_submit(job, partitions, user)
    local off = job.comment ~= nil and job.comment:find("--snin=off", 1, true) ~= nil
    if off or is_set(job.req_switch) or not is_set(job.min_nodes) then return slurm.SUCCESS end
    local size = leaf_size()
    if size > 0 then
        job.req_switch = math.ceil(job.min_nodes / size)
        job.wait4switch = WAIT
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, user)
    return slurm.SUCCESS
end

return slurm.SUCCESS
