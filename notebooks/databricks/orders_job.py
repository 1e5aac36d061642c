# Databricks notebook source
# MAGIC %md
# MAGIC # Orders, from the queue into a table
# MAGIC
# MAGIC Appends the messages of a queue to a table, deletes them from the queue, and ends. Run this notebook as a job on a
# MAGIC schedule, such as the job in `databricks.yml` beside it.
# MAGIC
# MAGIC The job needs Runtime 17.3 LTS or newer (Spark 4.0), a volume, and the package as a cluster library: the bundle builds
# MAGIC and installs the package. By hand: `%pip install <path of the wheel>` in a cell above this one.

# COMMAND ----------

# The job sets these widgets; in a notebook they are fields at the top.
dbutils.widgets.text("account", "https://shopqueues.queue.core.windows.net", "Queue endpoint")
dbutils.widgets.text("queue", "orders", "Queue")
dbutils.widgets.text("table", "main.shop.orders", "Table")
dbutils.widgets.text("volume", "/Volumes/main/shop/queues", "Folder for the checkpoint")
dbutils.widgets.text("log", "", "Write-ahead log, such as blob:logs/orders (empty: none)")
dbutils.widgets.text("credential", "", "Service credential (empty: the secret scope)")
dbutils.widgets.text("scope", "shop", "Secret scope")

account = dbutils.widgets.get("account")
queue = dbutils.widgets.get("queue")
table = dbutils.widgets.get("table")
volume = dbutils.widgets.get("volume")
log = dbutils.widgets.get("log")
credential = dbutils.widgets.get("credential")
scope = dbutils.widgets.get("scope")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The account
# MAGIC
# MAGIC The secret `queues` of the scope holds a connection string. A service credential needs no secret, but is untried in
# MAGIC the processes of a Python source.

# COMMAND ----------

if credential:
    azure = {"accountUrl": account, "credential": "databricks", "serviceCredential": credential}
else:
    azure = {"secret.connectionString": dbutils.secrets.get(scope=scope, key="queues")}

# COMMAND ----------

# MAGIC %md
# MAGIC ## The stream
# MAGIC
# MAGIC `drain` below restarts the stream after a failure. The restarts isolate messages that make their batch fail again and
# MAGIC again, and these are dead-lettered. A body that is not such JSON is kept, with NULLs in the parsed columns.

# COMMAND ----------

import spark_azqueue

# Needed if the package was installed into a running session. Spark 4.0 raises if it has already found the format.
try:
    spark.dataSource.register(spark_azqueue.AzQueueDataSource)
except Exception as error:
    if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
        raise

messages = spark.readStream.format("azqueue").options(**azure).option("queue", queue)
if log:
    messages = messages.option("writeAheadLog", log)
orders = messages.load().selectExpr(
    "message_id",
    "insertion_time",
    "body",
    "from_json(body, 'order_id BIGINT, quantity BIGINT') AS o",
)
orders = orders.select("message_id", "insertion_time", "body", "o.*")

# COMMAND ----------


# `drain` restarts the stream after a failure, and on Runtime 17 and 18 for each batch, until
# everything is read and deleted.
def start():
    return (
        orders.writeStream.queryName(f"read-{queue}")
        .option("checkpointLocation", f"{volume}/{queue}/checkpoint")
        .trigger(availableNow=True)
        .toTable(table)
    )


result = spark_azqueue.drain(start, azure | {"queue": queue})
if not result.finished:
    raise RuntimeError(str(result.explanation or result.reason or result)) from result.error

# COMMAND ----------

print(f"{result.read} messages; {table} has {spark.table(table).count()} rows")
dbutils.notebook.exit(str(result.read))
